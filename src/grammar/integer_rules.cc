#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/number_rules.h"

namespace forerun::grammar {
namespace {

// Digit strings of one length after another, as a graph. A state is how many digits are still to
// come, whether those so far are the bounds' own first digits, and what they leave divided.
class DigitGraph {
 public:
  DigitGraph(RuleSet& rules, int64_t multiple_of) : rules_(rules), multiple_of_(multiple_of) {
    for (int digit = 0; digit < 10; ++digit) {
      digits_.push_back(rules.literal(std::string(1, static_cast<char>('0' + digit))));
    }
  }

  // 0 <= first <= last.
  ExprId between(int64_t first, int64_t last) {
    const size_t shortest = std::to_string(first).size(), longest = std::to_string(last).size();
    int64_t power = 1;  // the least number of `length` digits
    for (size_t length = 1; length <= longest; ++length, power *= 10) {
      if (length < shortest) continue;
      const int64_t least = length == 1 ? 0 : power;
      low_ = std::to_string(std::max(first, least));
      high_ = std::to_string(length == longest ? last : power * 10 - 1);
      length_ = length;
      tight_.clear();
      add_edges(0, length, true, true, 0);
    }
    if (loose_ends_.empty() && edges_.empty()) return rules_.never();
    return rules_.graph(state_count_, std::move(edges_), std::move(loose_ends_));
  }

 private:
  // Whether the digits so far equal those of the lower, the upper bound.
  using Tight = std::tuple<size_t, bool, bool, int64_t>;

  void add_edges(uint32_t from, size_t left, bool at_low, bool at_high, int64_t rest) {
    const size_t at = length_ - left;
    const int first = at_low ? low_[at] - '0' : 0, last = at_high ? high_[at] - '0' : 9;
    for (int digit = first; digit <= last; ++digit) {
      const uint32_t to = state(left - 1, at_low && digit == first, at_high && digit == last,
                                (rest * 10 + digit) % multiple_of_);
      edges_.push_back({from, digits_[static_cast<size_t>(digit)], to});
    }
  }

  uint32_t state(size_t left, bool at_low, bool at_high, int64_t rest) {
    // Once off both bounds the length does not matter, so those states serve all lengths; and at
    // the last digit the bounds do not.
    if (left == 0) at_low = at_high = false;
    auto& numbers = at_low || at_high ? tight_ : loose_;
    const auto [found, inserted] = numbers.try_emplace({left, at_low, at_high, rest}, state_count_);
    const uint32_t number = found->second;
    if (!inserted) return number;
    ++state_count_;
    if (left > 0) {
      add_edges(number, left, at_low, at_high, rest);
    } else if (rest == 0) {
      loose_ends_.push_back(number);
    }
    return number;
  }

  RuleSet& rules_;
  const int64_t multiple_of_;
  std::vector<ExprId> digits_;
  std::string low_, high_;  // both of `length_` digits
  size_t length_ = 0;
  std::map<Tight, uint32_t> tight_, loose_;
  uint32_t state_count_ = 1;
  std::vector<GraphEdge> edges_;
  std::vector<uint32_t> loose_ends_;
};

}  // namespace

ExprId integers_between(RuleSet& rules, int64_t first, int64_t last, int64_t multiple_of) {
  std::vector<ExprId> parts;
  if (first <= last && last >= 0) {
    parts.push_back(DigitGraph(rules, multiple_of).between(std::max<int64_t>(first, 0), last));
  }
  if (first <= last && first < 0) {
    const ExprId positive =
        DigitGraph(rules, multiple_of).between(std::max<int64_t>(1, -last), -first);
    parts.push_back(rules.sequence({rules.literal("-"), positive}));
  }
  return rules.choice(std::move(parts));
}

}  // namespace forerun::grammar
