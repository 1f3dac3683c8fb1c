// Schemas of arrays: items that are alike, counted, and tuples.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// The arrays that `schema` allows. `depth`: of the schema, for the limit on nesting.
Result<ExprId> read_array(SchemaContext& context, const Json& schema, const std::string& at,
                          int depth);

}  // namespace forerun::grammar
