#include "grammar/counted_chars.h"

namespace forerun::grammar {

ExprId repeat_expr(RuleSet& rules, ExprId part, uint32_t min, uint32_t max) {
  constexpr uint32_t kMaxUnrolled = 16;
  const bool many = min > kMaxUnrolled || (max != kUnbounded && max > kMaxUnrolled);
  const Expr& expr = rules.expr(part);
  if (!many || expr.kind != Expr::Kind::kChars || expr.chars.empty()) {
    return rules.repeat(part, min, max);
  }
  CountedLoop loop;
  loop.before = rules.empty();
  loop.body = part;
  loop.after = rules.empty();
  loop.min = min;
  loop.max = max;
  const RuleId rule = rules.add_rule("repetition");
  rules.define(rule, loop);
  return rules.rule(rule);
}

}  // namespace forerun::grammar
