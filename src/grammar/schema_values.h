// Schemas that list their values: enum and const.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// Returns the values of enum or const in `schema`, which has one of them, that its other keywords
// allow.
Result<ExprId> read_values(SchemaContext& context, const Json& schema, const std::string& at);

// Returns one value, with the white space that objects and arrays may have.
ExprId fixed_value(SchemaContext& context, const Json& value);

}  // namespace forerun::grammar
