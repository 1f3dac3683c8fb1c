// Makes rules for the numbers between two bounds, digit by digit, so that the bounds hold exactly.
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
constexpr size_t kMaxBoundDigits = 15;

// Numbers between the bounds, where given; up to 15 digits before the point, and so few after it
// that rounding to a double carries none across a bound. With an exponent (d.ddde-06) it accepts
// numbers whose first digit stands behind that of every bound, and large ones where no bound is
// above.
ExprId numbers_between(RuleSet& rules, const std::optional<NumberBound>& least,
                       const std::optional<NumberBound>& most);

// What numbers are multiples of: `step` units of the last of `places` digits after the point.
struct Multiple {
  int64_t step = 1;  // 1 to kLargestMultiple
  int places = 0;

  // Nothing for what is no such number above zero.
  static std::optional<Multiple> of(const Decimal& value);
  // The step of the integers among these multiples.
  int64_t whole_step() const;
};

// Numbers without exponent between the bounds that are multiples of `multiple`; up to 15 digits, of
// which no more than its places after the point. multiple.places must be above 0.
ExprId multiples_between(RuleSet& rules, const std::optional<NumberBound>& least,
                         const std::optional<NumberBound>& most, const Multiple& multiple);

}  // namespace forerun::grammar
