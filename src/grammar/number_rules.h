// Numbers between bounds, exactly by their digits.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/decimal.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

constexpr int64_t kLargestInteger = 999'999'999'999'999'999;  // 18 digits
constexpr int64_t kLargestMultiple = 1000;

// Decimal integers from `first` to `last`, both within plus or minus kLargestInteger, that are
// multiples of `multiple_of` (1 to kLargestMultiple). No leading zeros, no "-0". Nothing if there
// are none.
ExprId integers_between(RuleSet& rules, int64_t first, int64_t last, int64_t multiple_of);

struct NumberBound {
  Decimal value;
  bool inclusive = true;
};

// Digits before the point that a bound of numbers_between() may have.
constexpr size_t kMostBoundDigits = 12;

// Numbers without exponent between the bounds, where given; up to 15 digits before the point, and
// so few after it that rounding to a double carries none across a bound.
ExprId numbers_between(RuleSet& rules, const std::optional<NumberBound>& least,
                       const std::optional<NumberBound>& most);

}  // namespace forerun::grammar
