// The rules of objects, made from members that have been read. `additional` is a member that the
// schema does not list; unset if there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// A property that the schema names.
struct Property {
  ExprId member = 0;  // name, colon and value
  bool required = false;
  bool possible = true;
  size_t name_bytes = 0;
};

// The allowed numbers of properties, listed and additional ones together.
struct PropertyCounts {
  uint32_t min = 0, max = kUnbounded;
};

// Accepts properties in the schema's order, then additional ones.
ExprId ordered_object(SchemaContext& context, std::vector<Property> properties,
                      std::optional<ExprId> additional, bool may_be_empty);

// Accepts properties in any order; the rule has 2^R states for R required ones.
ExprId unordered_object(SchemaContext& context, const std::vector<Property>& properties,
                        std::optional<ExprId> additional, bool may_be_empty);

// Accepts an object with as many properties as `counts` allows, in the schema's order, then
// additional ones. Fails with kUnsupported, naming the keyword of the schema at `at`, if that takes
// too many states.
Result<ExprId> counted_object(SchemaContext& context, const std::vector<Property>& properties,
                              std::optional<ExprId> additional, PropertyCounts counts,
                              const std::string& at);

}  // namespace forerun::grammar
