// Makes, for `not`, the schema that allows what another one does not, where keywords can say that.
#pragma once

#include <optional>
#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

// Exactly the values that `schema` does not allow; nothing where that cannot be said. `at`: where
// it stands.
Result<std::optional<Json>> negated(SchemaResolver& resolver, const Json& schema,
                                    const std::string& at, int depth);

}  // namespace forerun::grammar
