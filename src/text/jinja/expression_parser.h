// Expressions of a template, by precedence climbing in Jinja's own order of precedence.
#pragma once

#include "forerun/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace forerun::text::jinja {

class ExpressionParser {
 public:
  // Keeps the reference.
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // A whole expression; `with_condition` takes an inline if.
  Result<ExprPtr> expression(bool with_condition = true);
  // The same, or several of them with commas between: a tuple.
  Result<ExprPtr> tuple(bool with_condition = true);
  // "name | name(...)" behind a value that the caller has; null if there is no "|" and no name.
  Result<ExprPtr> filters(ExprPtr value, bool starts_with_name = false);

 private:
  class DepthGuard;

  Result<ExprPtr> either();
  Result<ExprPtr> both();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> left_chain(int level);
  Result<ExprPtr> unary(bool with_filters = true);
  Result<ExprPtr> primary();
  Result<ExprPtr> postfix(ExprPtr value);
  Result<ExprPtr> postfix_filters(ExprPtr value);
  Result<ExprPtr> one_filter(ExprPtr value);
  Result<ExprPtr> test(ExprPtr value);
  Result<ExprPtr> subscript(ExprPtr value);
  Result<ExprPtr> parenthesized();
  Result<ExprPtr> list_literal();
  Result<ExprPtr> dict_literal();
  Status arguments(Expr& call);

  ExprPtr node(ExprKind kind, std::string name = "") const;
  // Sets depth; fails where the tree is too deep to be walked.
  Result<ExprPtr> done(ExprPtr expr) const;

  TokenStream& tokens_;
  uint32_t nesting_ = 0;  // of calls of this parser
};

}  // namespace forerun::text::jinja
