// --show-tree: each verification as a line of what was drafted, accepted in green, rejected in red,
// the target's own token in bold.
#pragma once

#include <string>

#include "forerun/engine.h"

namespace forerun::app {

// One round as text with a line break. `stream` decides about colours.
std::string format_round(const SpeculationRound& round, const Engine& engine, std::FILE* stream);

}  // namespace forerun::app
