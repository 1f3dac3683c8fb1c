// Suggests the name that a mistyped one probably means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::app {

// The name that takes the fewest insertions, deletions, replacements and swaps of neighbours; empty
// if every name takes more of them than a third of the letters.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace forerun::app
