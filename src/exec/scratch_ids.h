// Which sequences of a role are the measurement's.
#pragma once

#include "step/types.h"

namespace forerun {

// Ids from here on.
constexpr SequenceId kFirstScratch = ~SequenceId{0} - 4096;

}  // namespace forerun
