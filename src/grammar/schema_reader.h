// SchemaReader writes the rules of one schema. It resolves references, merges, alternatives and
// types; each kind of value has a reader of its own (schema_object.h, schema_array.h,
// schema_string.h, schema_number.h, schema_values.h).
//
// Thread rules: one thread at a time. It adds to the RuleSet and never removes from it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"
#include "grammar/schema_context.h"
#include "grammar/schema_number.h"
#include "grammar/schema_object.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

class SchemaReader {
 public:
  // The arguments must outlive the object.
  SchemaReader(SchemaResolver& resolver, const GrammarLimits& limits, RuleSet& rules);
  SchemaReader(const SchemaReader&) = delete;
  SchemaReader& operator=(const SchemaReader&) = delete;

  // Returns the values that the whole document allows.
  Result<RuleId> read_document();

 private:
  // Returns the values that `schema`, at pointer `at`, allows.
  Result<ExprId> read(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_flattened(const Json& schema, const std::string& at, int depth);
  Result<ExprId> read_reference(const Json& ref, const std::string& at, int depth);
  Result<ExprId> read_alternatives(const Json& schema, const char* keyword, const std::string& at,
                                   int depth);
  Result<ExprId> read_types(const Json& schema, const std::string& at, int depth);

  SchemaContext context_;
  NumberReader numbers_;
  ObjectReader objects_;
  std::map<std::string, RuleId> references_;  // keyed by the pointer, as written
  std::map<std::string, RuleId> merged_;      // keyed by the text of the merged schema
  std::set<RuleId> nevers_;                   // the rules among these that allow no value
};

}  // namespace forerun::grammar
