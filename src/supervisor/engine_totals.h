// Totals of an engine over its launches: each launch counts from 0.
#pragma once

#include "supervisor/message.h"

namespace forerun {

// Adds the totals of `from` to those of `to`, strategies by name. All other fields of `to` stay.
void add_totals(EngineState& to, EngineState from);

}  // namespace forerun
