#include "grammar/number_rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace forerun::grammar {
namespace {

constexpr int64_t kLargestWhole = 999'999'999'999'999;  // 15 digits: exact as doubles
constexpr size_t kMaxNumberDigits = 15;

// The graph of fractions that may follow the digits before the point if these equal the digits of
// the given bounds. A state has the number of digits read, and whether they still equal the bounds'
// digits.
class FractionGraph {
 public:
  FractionGraph(RuleSet& rules, const NumberBound* low, const NumberBound* high, size_t max_digits)
      : rules_(rules), low_(low), high_(high), max_digits_(max_digits) {}

  ExprId build() {
    // State 0 is before the point: no digits of a fraction have been read.
    const bool at_low = low_ != nullptr, at_high = high_ != nullptr;
    if (may_end(0, at_low, at_high)) ends_.push_back(0);
    const uint32_t after_point = state_count_++;
    edges_.push_back({0, rules_.literal("."), after_point});
    add_edges(after_point, 0, at_low, at_high);
    return rules_.graph(state_count_, std::move(edges_), std::move(ends_));
  }

 private:
  static int digit_of(const NumberBound& bound, size_t at) {
    return at < bound.value.fraction.size() ? bound.value.fraction[at] - '0' : 0;
  }

  bool may_end(size_t read, bool at_low, bool at_high) const {
    if (at_low && (read < low_->value.fraction.size() || !low_->inclusive)) return false;
    return !(at_high && read >= high_->value.fraction.size() && !high_->inclusive);
  }

  void add_edges(uint32_t from, size_t read, bool at_low, bool at_high) {
    if (read == max_digits_) return;
    const int first = at_low ? digit_of(*low_, read) : 0;
    const int last = at_high ? digit_of(*high_, read) : 9;
    for (int digit = first; digit <= last; ++digit) {
      const uint32_t to = state(read + 1, at_low && digit == first, at_high && digit == last);
      edges_.push_back({from, rules_.literal(std::string(1, static_cast<char>('0' + digit))), to});
    }
  }

  uint32_t state(size_t read, bool at_low, bool at_high) {
    const auto [found, inserted] = numbers_.try_emplace({read, at_low, at_high}, state_count_);
    const uint32_t number = found->second;
    if (!inserted) return number;
    ++state_count_;
    if (may_end(read, at_low, at_high)) ends_.push_back(number);
    add_edges(number, read, at_low, at_high);
    return number;
  }

  RuleSet& rules_;
  const NumberBound* low_;
  const NumberBound* high_;
  const size_t max_digits_;
  std::map<std::tuple<size_t, bool, bool>, uint32_t> numbers_;
  uint32_t state_count_ = 1;
  std::vector<GraphEdge> edges_;
  std::vector<uint32_t> ends_;
};

constexpr int64_t kLargestExponent = 99;

// Returns the power of ten of the first digit of a value above zero.
int64_t order_of(const Decimal& value) {
  if (value.whole != "0") return static_cast<int64_t>(value.whole.size()) - 1;
  return -static_cast<int64_t>(value.fraction.find_first_not_of('0')) - 1;
}

// Accepts d.ddd with an exponent of the given sign and of `first` or more; with no more digits than
// a double distinguishes, so that 9.99... does not round to the next power of ten.
ExprId with_exponent(RuleSet& rules, ExprId sign, int64_t first) {
  std::vector<ExprId> exponents;
  if (first <= 9) {
    exponents.push_back(
        rules.sequence({rules.optional(rules.literal("0")), integers_between(rules, first, 9, 1)}));
  }
  if (first <= kLargestExponent) {
    exponents.push_back(integers_between(rules, std::max<int64_t>(first, 10), kLargestExponent, 1));
  }
  const ExprId fraction =
      rules.sequence({rules.literal("."),
                      rules.repeat(rules.chars(CodePointSet('0', '9')), 1, kMaxNumberDigits - 1)});
  return rules.sequence({rules.chars(CodePointSet('1', '9')), rules.optional(fraction),
                         rules.choice({rules.literal("e"), rules.literal("E")}), sign,
                         rules.choice(std::move(exponents))});
}

// Accepts the numbers from `low` to `high` (null: no upper bound) that programs write with an
// exponent: numbers near zero, and large ones if there is no upper bound.
std::vector<ExprId> magnitudes_with_exponent(RuleSet& rules, const NumberBound& low,
                                             const NumberBound* high) {
  std::vector<ExprId> parts;
  if (low.value.is_zero() && (!high || !high->value.is_zero())) {
    const int64_t first = high ? std::max<int64_t>(1 - order_of(high->value), 1) : 1;
    parts.push_back(with_exponent(rules, rules.literal("-"), first));
  }
  if (!high) {
    const int64_t first = low.value.is_zero() ? 1 : std::max<int64_t>(order_of(low.value) + 1, 1);
    parts.push_back(with_exponent(rules, rules.optional(rules.literal("+")), first));
  }
  return parts;
}

// Accepts non-negative numbers from `low` to `high`; null: no upper bound.
ExprId magnitudes(RuleSet& rules, const NumberBound& low, const NumberBound* high) {
  const int64_t first = low.value.floor(kLargestWhole);
  const int64_t last = high ? high->value.floor(kLargestWhole) : kLargestWhole + 1;
  if (first > last) return rules.never();
  const size_t digits = std::max(low.value.whole.size(), high ? high->value.whole.size() : 1);
  const size_t max_fraction = kMaxNumberDigits - std::min(digits, kMaxNumberDigits - 1);
  std::vector<ExprId> parts = magnitudes_with_exponent(rules, low, high);
  const auto with_whole = [&](int64_t from, int64_t to, const NumberBound* at_low,
                              const NumberBound* at_high) {
    if (from > to) return;
    parts.push_back(rules.sequence({integers_between(rules, from, to, 1),
                                    FractionGraph(rules, at_low, at_high, max_fraction).build()}));
  };
  if (first == last) {
    with_whole(first, first, &low, high);
  } else {
    with_whole(first, first, &low, nullptr);
    with_whole(first + 1, last - 1, nullptr, nullptr);
    if (high) with_whole(last, last, nullptr, high);
  }
  return rules.choice(std::move(parts));
}

}  // namespace

ExprId numbers_between(RuleSet& rules, const std::optional<NumberBound>& least,
                       const std::optional<NumberBound>& most) {
  if (least && most) {
    const int order = compare(least->value, most->value);
    if (order > 0 || (order == 0 && !(least->inclusive && most->inclusive))) return rules.never();
  }
  const NumberBound zero{*Decimal::parse("0"), true}, above_zero{zero.value, false};
  const auto negated = [](NumberBound bound) {
    bound.value.negative = !bound.value.negative && !bound.value.is_zero();
    return bound;
  };
  std::vector<ExprId> parts;
  if (!most || !most->value.negative) {
    const bool from_least = least && !least->value.negative;
    parts.push_back(magnitudes(rules, from_least ? *least : zero, most ? &*most : nullptr));
  }
  if (!least || least->value.negative) {
    const bool to_most = most && most->value.negative;
    const NumberBound low = to_most ? negated(*most) : above_zero;
    const std::optional<NumberBound> high = least ? std::optional(negated(*least)) : std::nullopt;
    parts.push_back(
        rules.sequence({rules.literal("-"), magnitudes(rules, low, high ? &*high : nullptr)}));
  }
  return rules.choice(std::move(parts));
}

}  // namespace forerun::grammar
