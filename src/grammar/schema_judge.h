// Whether one value satisfies a schema: for lists of values, and for oneOf.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

enum class Verdict : uint8_t { kNo, kUnknown, kYes };

// `schema` as the specification has it. kUnknown where that takes what is not supported; a format
// counts as satisfied. `at`: where the schema stands. Fails as SchemaResolver::flattened().
Result<Verdict> judge(SchemaResolver& resolver, const Json& schema, const Json& value,
                      const std::string& at, int depth = 0);

}  // namespace forerun::grammar
