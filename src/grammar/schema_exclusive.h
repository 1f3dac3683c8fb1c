// Decides, for oneOf, whether two schemas certainly have no value in common: "exactly one of them"
// then equals "one of them".
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

// Returns true only if it is certain, for every kind of value that both allow: an enum or const
// lists values that the other does not allow; bounds, lengths or counts leave no value; no text
// matches both patterns; items of non-empty arrays exclude one another; one object requires a
// property that the other forbids, or that has schemas which exclude one another. Checks
// alternatives of anyOf and oneOf.
Result<bool> exclude_one_another(SchemaResolver& resolver, const Json& a, const Json& b,
                                 const std::string& at, int depth = 0);

}  // namespace forerun::grammar
