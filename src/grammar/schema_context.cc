#include "grammar/schema_context.h"

namespace forerun::grammar {

ExprId SchemaContext::as_rule(const std::string& name, ExprId expr) {
  const Expr::Kind kind = rules.expr(expr).kind;
  if (kind == Expr::Kind::kNever) return expr;
  if (kind == Expr::Kind::kRule && rules.rule_at(rules.expr(expr).rule).shared) return expr;
  return rules.rule(rules.new_rule(name, expr, true));
}

}  // namespace forerun::grammar
