// Decides whether one value satisfies a schema: for lists of values, and for oneOf.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

enum class Verdict : uint8_t { kNo, kUnknown, kYes };

// Returns whether `value` satisfies `schema` by the specification; kUnknown if that depends on
// something unsupported. A format counts as satisfied. `at` is the schema's place. Fails as
// SchemaResolver::flattened() does.
Result<Verdict> judge(SchemaResolver& resolver, const Json& schema, const Json& value,
                      const std::string& at, int depth = 0);

}  // namespace forerun::grammar
