// Schemas of objects: reads the members, and writes the rules of the object (object_rules.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "grammar/object_rules.h"
#include "grammar/schema_context.h"
#include "grammar/schema_names.h"

namespace forerun::grammar {

// Counts the states of objects whose properties may have any order, for the limit on all of them.
class ObjectReader {
 public:
  // `context` must outlive it.
  explicit ObjectReader(SchemaContext& context) : context_(context) {}

  // The objects that `schema` allows. `depth`: how deep the schema is nested, for the limit.
  Result<ExprId> read(const Json& schema, const std::string& at, int depth);

 private:
  // The properties that the schema names; their names are appended to `names`.
  Result<std::vector<Property>> read_properties(const Json& schema, const std::string& at,
                                                int depth, std::vector<std::string>& names,
                                                const NamePatterns& patterns);
  // Members beyond `names`; nothing where there are none.
  Result<std::optional<ExprId>> read_additional(const Json& schema, const std::string& at,
                                                int depth, const std::vector<std::string>& names,
                                                const NamePatterns& patterns);

  SchemaContext& context_;
  size_t unordered_states_ = 0;
};

}  // namespace forerun::grammar
