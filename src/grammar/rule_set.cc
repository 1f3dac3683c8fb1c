#include "grammar/rule_set.h"

#include <utility>

namespace forerun::grammar {

ExprId RuleSet::add(Expr expr) {
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId RuleSet::empty() { return add({}); }

ExprId RuleSet::never() {
  Expr expr;
  expr.kind = Expr::Kind::kNever;
  return add(std::move(expr));
}

ExprId RuleSet::literal(std::string_view bytes) {
  Expr expr;
  expr.kind = Expr::Kind::kLiteral;
  expr.bytes = bytes;
  return add(std::move(expr));
}

ExprId RuleSet::chars(CodePointSet chars) {
  Expr expr;
  expr.kind = Expr::Kind::kChars;
  expr.chars = std::move(chars);
  return add(std::move(expr));
}

ExprId RuleSet::sequence(std::vector<ExprId> parts) {
  Expr expr;
  expr.kind = Expr::Kind::kSequence;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId RuleSet::choice(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  Expr expr;
  expr.kind = parts.empty() ? Expr::Kind::kNever : Expr::Kind::kChoice;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId RuleSet::repeat(ExprId part, uint32_t min, uint32_t max) {
  Expr expr;
  expr.kind = Expr::Kind::kRepeat;
  expr.parts = {part};
  expr.min = min;
  expr.max = max;
  return add(std::move(expr));
}

ExprId RuleSet::rule(RuleId rule) {
  Expr expr;
  expr.kind = Expr::Kind::kRule;
  expr.rule = rule;
  return add(std::move(expr));
}

ExprId RuleSet::graph(uint32_t state_count, std::vector<GraphEdge> edges,
                      std::vector<uint32_t> ends) {
  Expr expr;
  expr.kind = Expr::Kind::kGraph;
  expr.state_count = state_count;
  expr.edges = std::move(edges);
  expr.ends = std::move(ends);
  return add(std::move(expr));
}

RuleId RuleSet::add_rule(std::string name, bool shared) {
  Rule rule;
  rule.name = std::move(name);
  rule.shared = shared;
  rules_.push_back(std::move(rule));
  return static_cast<RuleId>(rules_.size() - 1);
}

void RuleSet::define(RuleId rule, ExprId expr) {
  rules_[rule].expr = expr;
  rules_[rule].defined = true;
}

void RuleSet::define(RuleId rule, const CountedLoop& loop) {
  rules_[rule].loop = loop;
  rules_[rule].counted = true;
  rules_[rule].shared = true;
  rules_[rule].defined = true;
}

RuleId RuleSet::new_rule(std::string name, ExprId expr, bool shared) {
  const RuleId rule = add_rule(std::move(name), shared);
  define(rule, expr);
  return rule;
}

}  // namespace forerun::grammar
