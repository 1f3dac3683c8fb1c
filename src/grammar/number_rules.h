// Makes rules for the numbers between two bounds, digit by digit, so that the bounds hold exactly.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/decimal.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

constexpr int64_t kLargestInteger = 999'999'999'999'999'999;  // 18 digits
constexpr int64_t kLargestMultiple = 1000;

// Accepts decimal integers from `first` to `last`, both within plus or minus kLargestInteger, that
// are multiples of `multiple_of` (1 to kLargestMultiple). No leading zeros, no "-0". Accepts
// nothing if there are none.
ExprId integers_between(RuleSet& rules, int64_t first, int64_t last, int64_t multiple_of);

struct NumberBound {
  Decimal value;
  bool inclusive = true;
};

// The largest number of digits before the point of a bound of numbers_between().
constexpr size_t kMaxBoundDigits = 15;

// Accepts numbers between the given bounds; up to 15 digits before the point, and so few after it
// that rounding to a double never crosses a bound. With an exponent (d.ddde-06) it accepts numbers
// with a first digit of lower value than that of every bound, and large ones if there is no upper
// bound.
ExprId numbers_between(RuleSet& rules, const std::optional<NumberBound>& least,
                       const std::optional<NumberBound>& most);

// The unit of multiples: `step` units of the last of `places` digits after the point.
struct Multiple {
  int64_t step = 1;  // 1 to kLargestMultiple
  int places = 0;

  // Returns nothing if `value` is not such a number above zero.
  static std::optional<Multiple> of(const Decimal& value);
  // Returns the step of the integers among these multiples.
  int64_t whole_step() const;
};

// Accepts numbers without exponent between the bounds that are multiples of `multiple`; up to 15
// digits, at most multiple.places of them after the point. multiple.places must be above 0.
ExprId multiples_between(RuleSet& rules, const std::optional<NumberBound>& least,
                         const std::optional<NumberBound>& most, const Multiple& multiple);

}  // namespace forerun::grammar
