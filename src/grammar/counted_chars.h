// Repetitions of one character: unrolled into states where they are few, counted where many.
#pragma once

#include "grammar/rule_set.h"

namespace forerun::grammar {

// `part`, min to max times; max may be kUnbounded. A kChars expression repeated more than some
// dozen times becomes a rule that counts, so that "[a-z]{1,1000}" costs no thousand states.
ExprId repeat_expr(RuleSet& rules, ExprId part, uint32_t min, uint32_t max);

}  // namespace forerun::grammar
