// The objects that the readers of one schema's parts share: its document, the rules that they
// write, and the function that reads a nested schema.
//
// In all readers, `at` is the JSON pointer of the schema that is read, for messages. Readers fail
// with the pointer, what was found there and what is accepted, and leave the rules of the parts
// read so far.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "forerun/status.h"
#include "grammar/json_rules.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

struct SchemaContext {
  using ReadSchema =
      std::function<Result<ExprId>(const Json& schema, const std::string& at, int depth)>;

  // The arguments must outlive the object.
  SchemaContext(SchemaResolver& schema_resolver, const GrammarLimits& grammar_limits,
                RuleSet& rule_set, ReadSchema read_schema)
      : resolver(schema_resolver),
        limits(grammar_limits),
        rules(rule_set),
        json(rule_set, schema_resolver.reading()),
        read(std::move(read_schema)) {}

  bool is_never(ExprId expr) const { return rules.expr(expr).kind == Expr::Kind::kNever; }
  // Returns `expr` as a call of a rule of its own, unless it accepts nothing or is such a call
  // already.
  ExprId as_rule(const std::string& name, ExprId expr);

  SchemaResolver& resolver;
  const GrammarLimits& limits;
  RuleSet& rules;
  JsonRules json;
  // Returns the values that `schema` allows. `depth` is its nesting.
  const ReadSchema read;
};

}  // namespace forerun::grammar
