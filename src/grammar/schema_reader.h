// SchemaReader: writes the rules of one schema. Internal to schema.cc and schema_*.cc.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/json_rules.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

class SchemaReader {
 public:
  // All must outlive it.
  SchemaReader(SchemaResolver& resolver, const GrammarLimits& limits, RuleSet& rules)
      : resolver_(resolver), limits_(limits), rules_(rules), json_(rules, resolver.reading()) {}

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
  Result<ExprId> read_flattened(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_reference(const Json& ref, const std::string& at, int depth);
  Result<ExprId> read_alternatives(const Json& schema, const char* keyword, const std::string& at,
                                   int depth);
  Result<ExprId> read_types(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_values(const Json& schema, const std::string& at);
  ExprId fixed_value(const Json& value);

  // schema_object.cc
  Result<ExprId> read_object(const Json& schema, const std::string& at, int depth);
  // The patterns of patternProperties, and what propertyNames asks of every name.
  struct NamePatterns {
    std::vector<std::pair<CharNfa, Json>> patterns;
    std::optional<CharNfa> all;
    bool none = false;  // propertyNames allows no name
  };
  Result<std::vector<Property>> read_properties(const Json& schema, const std::string& at,
                                                int depth, std::vector<std::string>& names,
                                                const NamePatterns& patterns);
  Result<NamePatterns> read_name_patterns(const Json& schema, const std::string& at);
  Result<std::optional<ExprId>> read_additional(const Json& schema, const std::string& at,
                                                int depth, const std::vector<std::string>& names,
                                                const NamePatterns& patterns);
  Result<std::vector<ExprId>> other_members(const Json& additional, const std::string& at,
                                            int depth, const std::vector<std::string>& names,
                                            const NamePatterns& patterns);
  // How many properties there may be, listed and others together.
  struct PropertyCounts {
    uint32_t min = 0, max = kUnbounded;
  };
  Result<PropertyCounts> read_property_counts(const Json& schema, const std::string& at,
                                              const std::vector<Property>& properties, bool open);
  ExprId unordered_object(const std::vector<Property>& properties, std::optional<ExprId> additional,
                          bool may_be_empty);
  ExprId object_graph(std::vector<Property> properties, std::optional<ExprId> additional,
                      bool may_be_empty);
  Result<ExprId> counted_object(const std::vector<Property>& properties,
                                std::optional<ExprId> additional, PropertyCounts counts,
                                const std::string& at);
  ExprId other_names(const std::vector<std::string>& names);

  // schema_array.cc
  Result<ExprId> read_array(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_unique(const Json& schema, const std::string& at, uint32_t min, uint32_t max);
  ExprId counted_items(ExprId item, uint32_t min, uint32_t max);
  ExprId tuple_graph(const std::vector<ExprId>& first, std::optional<ExprId> rest, uint32_t min,
                     uint32_t max);

  // schema_scalar.cc
  Result<ExprId> read_string(const Json& schema, const std::string& at);
  Result<ExprId> read_number(const Json& schema, const std::string& at, int types);
  // The texts that pattern, format and their kin allow, without quotes; nothing where they allow
  // all.
  Result<std::optional<CharNfa>> read_texts(const Json& schema, const std::string& at);
  Result<bool> make_countable(CharNfa& nfa, uint32_t min, const std::string& at);
  // A JSON string in quotes: the texts of `nfa` that have min to max characters.
  Result<ExprId> quoted_texts(CharNfa nfa, uint32_t min, uint32_t max, const std::string& at);

  bool is_never(ExprId expr) const { return rules_.expr(expr).kind == Expr::Kind::kNever; }
  // `expr` as a call of a rule of its own, unless it is nothing.
  ExprId as_rule(const std::string& name, ExprId expr);

  SchemaResolver& resolver_;
  const GrammarLimits& limits_;
  RuleSet& rules_;
  JsonRules json_;
  std::map<std::string, RuleId> references_;  // by the pointer, as written
  std::map<std::string, RuleId> merged_;      // by the text of what merging made
  size_t unordered_states_ = 0;
  std::set<RuleId> nevers_;  // the rules among these that allow nothing
  // Rules of integers by minimum, maximum and multipleOf: each is made once, since usual schemas
  // have many integers of one kind.
  std::map<std::tuple<int64_t, int64_t, int64_t>, ExprId> integers_;
};

}  // namespace forerun::grammar
