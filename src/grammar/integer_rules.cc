#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/number_rules.h"

namespace forerun::grammar {
namespace {

// The graph of digit strings of increasing length. A state has the number of digits still to come,
// whether the digits so far equal the bounds' first digits, and their remainder modulo the step.
//
// With `places`, the last `places` digits follow a point, and are omitted if all that are still to
// come are zeros.
class DigitGraph {
 public:
  DigitGraph(RuleSet& rules, int64_t multiple_of, size_t places = 0)
      : rules_(rules), multiple_of_(multiple_of), places_(places), point_(rules.literal(".")) {
    for (int digit = 0; digit < 10; ++digit) {
      digits_.push_back(rules.literal(std::string(1, static_cast<char>('0' + digit))));
    }
  }

  // Requires 0 <= first <= last.
  ExprId between(int64_t first, int64_t last) {
    const size_t shortest = std::max(std::to_string(first).size(), places_ + 1);
    const size_t longest = std::max(std::to_string(last).size(), places_ + 1);
    for (size_t length = shortest; length <= longest; ++length) {
      const int64_t power = power_of_ten(length - 1);  // the smallest number with this many digits
      const int64_t min_number = length == places_ + 1 ? 0 : power;
      low_ = padded(std::max(first, min_number), length);
      high_ = padded(length == longest ? last : power * 10 - 1, length);
      length_ = length;
      tight_.clear();
      add_edges(0, length, true, true, 0);
    }
    if (loose_ends_.empty() && edges_.empty()) return rules_.never();
    return rules_.graph(state_count_, std::move(edges_), std::move(loose_ends_));
  }

 private:
  static int64_t power_of_ten(size_t digits) {
    int64_t power = 1;
    for (; digits > 0; --digits) power *= 10;
    return power;
  }
  static std::string padded(int64_t value, size_t length) {
    const std::string digits = std::to_string(value);
    return std::string(length - std::min(length, digits.size()), '0') + digits;
  }

  // Whether the digits so far equal those of the lower and of the upper bound.
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
    // Once the digits differ from both bounds, the length does not matter, so those states serve
    // all lengths; at the last digit the bounds do not matter.
    if (left == 0) at_low = at_high = false;
    auto& numbers = at_low || at_high ? tight_ : loose_;
    const auto [found, inserted] = numbers.try_emplace({left, at_low, at_high, rest}, state_count_);
    const uint32_t number = found->second;
    if (!inserted) return number;
    ++state_count_;
    if (left <= places_ && may_end(left, at_low, rest)) loose_ends_.push_back(number);
    if (left == 0) return number;
    uint32_t next = number;
    if (left == places_) {
      next = state_count_++;
      edges_.push_back({number, point_, next});
    }
    add_edges(next, left, at_low, at_high, rest);
    return number;
  }

  // Returns whether zeros in place of the remaining digits make an allowed number.
  bool may_end(size_t left, bool at_low, int64_t rest) const {
    const bool below = at_low && low_.find_first_not_of('0', length_ - left) != std::string::npos;
    return !below && rest * (power_of_ten(left) % multiple_of_) % multiple_of_ == 0;
  }

  RuleSet& rules_;
  const int64_t multiple_of_;
  const size_t places_;
  const ExprId point_;
  std::vector<ExprId> digits_;
  std::string low_, high_;  // both have `length_` digits
  size_t length_ = 0;
  std::map<Tight, uint32_t> tight_, loose_;
  uint32_t state_count_ = 1;
  std::vector<GraphEdge> edges_;
  std::vector<uint32_t> loose_ends_;
};

}  // namespace

namespace {

ExprId signed_digits(RuleSet& rules, int64_t first, int64_t last, int64_t multiple_of,
                     size_t places) {
  std::vector<ExprId> parts;
  if (first <= last && last >= 0) {
    parts.push_back(
        DigitGraph(rules, multiple_of, places).between(std::max<int64_t>(first, 0), last));
  }
  if (first <= last && first < 0) {
    const ExprId positive =
        DigitGraph(rules, multiple_of, places).between(std::max<int64_t>(1, -last), -first);
    parts.push_back(rules.sequence({rules.literal("-"), positive}));
  }
  return rules.choice(std::move(parts));
}

// Returns `value` in units of the last of `places` digits after the point.
Decimal scaled(Decimal value, int places) {
  for (; places > 0; --places) {
    value.whole += value.fraction.empty() ? '0' : value.fraction[0];
    if (!value.fraction.empty()) value.fraction.erase(0, 1);
  }
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size() - 1));
  return value;
}

}  // namespace

ExprId integers_between(RuleSet& rules, int64_t first, int64_t last, int64_t multiple_of) {
  return signed_digits(rules, first, last, multiple_of, 0);
}

std::optional<Multiple> Multiple::of(const Decimal& value) {
  constexpr size_t kMaxFractionDigits = 9;
  if (value.negative || value.is_zero() || value.fraction.size() > kMaxFractionDigits)
    return std::nullopt;
  Multiple multiple;
  multiple.places = static_cast<int>(value.fraction.size());
  multiple.step = scaled(value, multiple.places).floor(kLargestMultiple + 1);
  if (multiple.step > kLargestMultiple) return std::nullopt;
  return multiple;
}

int64_t Multiple::whole_step() const {
  int64_t unit = 1;
  for (int i = 0; i < places; ++i) unit *= 10;
  return step / std::gcd(step, unit);
}

ExprId multiples_between(RuleSet& rules, const std::optional<NumberBound>& least,
                         const std::optional<NumberBound>& most, const Multiple& multiple) {
  constexpr int64_t kMax = 999'999'999'999'999;  // 15 digits: exact as doubles
  int64_t first = -kMax, last = kMax;
  if (least) {
    const Decimal bound = scaled(least->value, multiple.places);
    first = least->inclusive ? bound.ceil(kMax + 1) : bound.floor(kMax + 1) + 1;
  }
  if (most) {
    const Decimal bound = scaled(most->value, multiple.places);
    last = most->inclusive ? bound.floor(kMax + 1) : bound.ceil(kMax + 1) - 1;
  }
  return signed_digits(rules, std::max(first, -kMax), std::min(last, kMax), multiple.step,
                       static_cast<size_t>(multiple.places));
}

}  // namespace forerun::grammar
