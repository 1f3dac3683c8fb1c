#include "nearest.h"

#include <algorithm>
#include <cstddef>

namespace forerun::app {
namespace {

// Returns the Damerau-Levenshtein distance, with neighbours swapped at most once. Names are short.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t row = 0; row <= a.size(); ++row) {
    for (size_t column = 0; column <= b.size(); ++column) {
      size_t& best = cost[row][column];
      best = row + column;
      if (row == 0 || column == 0) continue;
      const size_t replaced = a[row - 1] == b[column - 1] ? 0 : 1;
      best = std::min({cost[row - 1][column] + 1, cost[row][column - 1] + 1,
                       cost[row - 1][column - 1] + replaced});
      if (row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1]) {
        best = std::min(best, cost[row - 2][column - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 64;  // longer than any flag
  if (typed.size() > kLongest) return "";
  std::string nearest;
  size_t min_distance = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(typed, name);
    if (distance >= min_distance) continue;
    min_distance = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace forerun::app
