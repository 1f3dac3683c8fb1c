// What was probably meant by a mistyped name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::app {

// The name that the fewest insertions, deletions, replacements and swaps of neighbours lead to;
// empty where each takes more than a third of the letters.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace forerun::app
