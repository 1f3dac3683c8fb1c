// The names of an object's members: patternProperties, propertyNames, and names that no keyword
// lists.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// The patterns of patternProperties, and the conditions of propertyNames on every name.
struct NamePatterns {
  std::vector<std::pair<CharNfa, Json>> patterns;
  std::optional<CharNfa> all;
  bool none = false;  // propertyNames allows no name
};

Result<NamePatterns> read_name_patterns(SchemaContext& context, const Json& schema,
                                        const std::string& at);

// Returns the members with names outside `names`, if `patterns` has any or restricts all names: one
// for each set of patterns that some name matches, with the schemas of all of them, and one for
// names that match none, with the value `additional`.
Result<std::vector<ExprId>> other_members(SchemaContext& context, const Json& additional,
                                          const std::string& at, int depth,
                                          const std::vector<std::string>& names,
                                          const NamePatterns& patterns);

// Accepts a name in quotes that is not in `names`. If `names` is not empty it has one spelling,
// since an escaped spelling of a listed name would be that name.
ExprId other_names(SchemaContext& context, const std::vector<std::string>& names);

}  // namespace forerun::grammar
