// Makes, for `not`, the schema of the values that another one does not allow, if keywords can
// express that.
#pragma once

#include <optional>
#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

// Returns a schema of exactly the values that `schema` does not allow; nothing if that cannot be
// expressed. `at` is its place.
Result<std::optional<Json>> negated(SchemaResolver& resolver, const Json& schema,
                                    const std::string& at, int depth);

}  // namespace forerun::grammar
