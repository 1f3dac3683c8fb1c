// Suggests the most likely name for a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::app {

// Returns the name that takes the fewest insertions, deletions, replacements and swaps of
// neighbours; empty if every name takes more of them than a third of the letters.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace forerun::app
