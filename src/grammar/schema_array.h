// Schemas of arrays: items that are alike, counted, and tuples.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// The arrays that `schema` allows. `depth`: how deep the schema is nested, for the limit.
Result<ExprId> read_array(SchemaContext& context, const Json& schema, const std::string& at,
                          int depth);

}  // namespace forerun::grammar
