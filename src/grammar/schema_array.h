// Schemas of arrays: counted items of one schema, and tuples.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_context.h"

namespace forerun::grammar {

// Returns the arrays that `schema` allows. `depth` is the nesting of the schema, for the limit.
Result<ExprId> read_array(SchemaContext& context, const Json& schema, const std::string& at,
                          int depth);

}  // namespace forerun::grammar
