// The rules of objects whose members have been read. `additional` is a member that the schema does
// not list; nothing where there is none.
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

// How many properties there may be, listed and others together.
struct PropertyCounts {
  uint32_t min = 0, max = kUnbounded;
};

// Properties in the schema's order, then additional ones.
ExprId ordered_object(SchemaContext& context, std::vector<Property> properties,
                      std::optional<ExprId> additional, bool may_be_empty);

// Properties in any order; the rule has 2^R states for R required ones.
ExprId unordered_object(SchemaContext& context, const std::vector<Property>& properties,
                        std::optional<ExprId> additional, bool may_be_empty);

// An object that has as many properties as `counts` says, in the schema's order, then additional
// ones. Fails with kUnsupported, naming the keyword of the schema at `at`, if that takes too many
// states.
Result<ExprId> counted_object(SchemaContext& context, const std::vector<Property>& properties,
                              std::optional<ExprId> additional, PropertyCounts counts,
                              const std::string& at);

}  // namespace forerun::grammar
