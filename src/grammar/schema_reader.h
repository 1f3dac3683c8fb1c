// SchemaReader: writes the rules of one schema. Internal to schema.cc and schema_*.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "forerun/status.h"
#include "grammar/json_rules.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

class SchemaReader {
 public:
  // All must outlive it.
  SchemaReader(SchemaResolver& resolver, const GrammarLimits& limits, RuleSet& rules)
      : resolver_(resolver), limits_(limits), rules_(rules), json_(rules) {}

  // What the whole document allows.
  Result<RuleId> read_document();

 private:
  // A member of an object, while it is read.
  struct Property {
    ExprId member = 0;  // name, colon and value
    bool required = false;
    bool possible = true;
    size_t name_bytes = 0;
  };

  // What `schema`, which stands at pointer `at`, allows.
  Result<ExprId> read(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_reference(const Json& ref, const std::string& at, int depth);
  Result<ExprId> read_alternatives(const Json& schema, const char* keyword, const std::string& at,
                                   int depth);
  Result<ExprId> read_types(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_values(const Json& schema, const std::string& at);
  ExprId fixed_value(const Json& value);

  // schema_object.cc
  Result<ExprId> read_object(const Json& schema, const std::string& at, int depth);
  Result<std::vector<Property>> read_properties(const Json& schema, const std::string& at,
                                                int depth, std::vector<std::string>& names);
  Result<std::optional<ExprId>> read_additional(const Json& schema, const std::string& at,
                                                int depth, const std::vector<std::string>& names);
  Status check_property_counts(const Json& schema, const std::string& at,
                               const std::vector<Property>& properties, bool open,
                               bool& may_be_empty);
  ExprId object_graph(std::vector<Property> properties, std::optional<ExprId> additional,
                      bool may_be_empty);
  ExprId other_names(const std::vector<std::string>& names);

  // schema_array.cc
  Result<ExprId> read_array(const Json& schema, const std::string& at, int depth);
  ExprId counted_items(ExprId item, uint32_t min, uint32_t max);
  ExprId tuple_graph(const std::vector<ExprId>& first, std::optional<ExprId> rest, uint32_t min,
                     uint32_t max);

  // schema_scalar.cc
  Result<ExprId> read_string(const Json& schema, const std::string& at);
  Result<ExprId> read_number(const Json& schema, const std::string& at, bool integer);

  bool is_never(ExprId expr) const { return rules_.expr(expr).kind == Expr::Kind::kNever; }
  // `expr` as a call of a rule of its own, unless it is nothing.
  ExprId as_rule(const std::string& name, ExprId expr);

  SchemaResolver& resolver_;
  const GrammarLimits& limits_;
  RuleSet& rules_;
  JsonRules json_;
  std::map<std::string, RuleId> references_;  // by the pointer, as written
  // By the least, the most and what they are multiples of: each once, since usual schemas have many
  // integers of one kind.
  std::map<std::tuple<int64_t, int64_t, int64_t>, ExprId> integers_;
};

}  // namespace forerun::grammar
