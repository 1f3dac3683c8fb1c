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

// Reads objects; counts the states of objects with properties in any order, for the limit on all of
// them.
class ObjectReader {
 public:
  // `context` must outlive the object.
  explicit ObjectReader(SchemaContext& context) : context_(context) {}

  // Returns the objects that `schema` allows. `depth` is the nesting of the schema, for the limit.
  Result<ExprId> read(const Json& schema, const std::string& at, int depth);

 private:
  // Returns the properties that the schema names; appends their names to `names`.
  Result<std::vector<Property>> read_properties(const Json& schema, const std::string& at,
                                                int depth, std::vector<std::string>& names,
                                                const NamePatterns& patterns);
  // Returns the members beyond `names`; nothing if there are none.
  Result<std::optional<ExprId>> read_additional(const Json& schema, const std::string& at,
                                                int depth, const std::vector<std::string>& names,
                                                const NamePatterns& patterns);

  SchemaContext& context_;
  size_t unordered_states_ = 0;
};

}  // namespace forerun::grammar
