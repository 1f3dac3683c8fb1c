// --show-tree: prints each verification as a line of draft tokens, accepted ones in green, rejected
// ones in red, and the target's own token in bold.
#pragma once

#include <string>

#include "forerun/engine.h"

namespace forerun::app {

// Returns one round as text with a line break. Coloured if `stream` is a terminal.
std::string format_round(const SpeculationRound& round, const Engine& engine, std::FILE* stream);

}  // namespace forerun::app
