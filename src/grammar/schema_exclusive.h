// oneOf: whether two schemas can be seen to have no value in common, so that "exactly one" is
// "one".
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_resolver.h"

namespace forerun::grammar {

// True only where it is certain: the types differ; enum or const list different values; numbers'
// bounds leave nothing; both are objects and one demands a property that the other forbids, or
// whose schemas in both exclude one another. Alternatives of anyOf and oneOf are looked into.
Result<bool> exclude_one_another(SchemaResolver& resolver, const Json& a, const Json& b,
                                 const std::string& at, int depth = 0);

}  // namespace forerun::grammar
