// Tells, for oneOf, whether two schemas have certainly no value in common: "exactly one of them" is
// then the same as "one of them".
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

// True only where it is certain, for every kind of value that both allow: enum or const list values
// that the other does not allow; bounds, lengths or counts leave nothing; no text matches both
// patterns; items of arrays that are not empty exclude one another; one object demands a property
// that the other forbids, or whose schemas in both exclude one another. Alternatives of anyOf and
// oneOf are looked into.
Result<bool> exclude_one_another(SchemaResolver& resolver, const Json& a, const Json& b,
                                 const std::string& at, int depth = 0);

}  // namespace forerun::grammar
