// Repetitions of one character: a few are unrolled into states, many are counted.
#pragma once

#include "grammar/rule_set.h"

namespace forerun::grammar {

// Returns `part` repeated min to max times; max may be kUnbounded. A kChars expression repeated
// more than some dozen times becomes a rule with a counter, so that "[a-z]{1,1000}" does not need a
// thousand states.
ExprId repeat_expr(RuleSet& rules, ExprId part, uint32_t min, uint32_t max);

}  // namespace forerun::grammar
