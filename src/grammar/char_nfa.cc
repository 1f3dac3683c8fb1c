#include "grammar/char_nfa.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace forerun::grammar {

Result<CharNfa> with_length(const CharNfa& nfa, uint32_t min, uint32_t max, size_t max_states) {
  const bool bounded = max != UINT32_MAX;
  CharNfa result;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;
  std::vector<std::pair<uint32_t, uint32_t>> open;  // (state, characters read), in order of numbers
  const auto number_of = [&](uint32_t state, uint32_t count) {
    const auto [found, inserted] =
        numbers.try_emplace({state, count}, static_cast<uint32_t>(open.size()));
    if (inserted) open.emplace_back(state, count);
    return found->second;
  };
  number_of(0, 0);
  size_t ranges = 0;  // ranges of all edges
  for (size_t at = 0; at < open.size(); ++at) {
    const auto [state, count] = open[at];
    if (open.size() > max_states || ranges > 50 * max_states) {
      return Status(
          StatusCode::kResourceExhausted,
          "a pattern with these lengths needs more than " + std::to_string(max_states) + " states");
    }
    CharNfa::State made;
    made.end = nfa.states[state].end && count >= min;
    if (!bounded || count < max) {
      const uint32_t next = bounded ? count + 1 : std::min(count + 1, min);
      for (const CharNfa::Edge& edge : nfa.states[state].edges) {
        made.edges.push_back({edge.chars, number_of(edge.to, next)});
        ranges += edge.chars.ranges().size();
      }
    }
    result.states.push_back(std::move(made));
  }
  return result;
}

}  // namespace forerun::grammar
