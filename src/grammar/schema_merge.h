// Merges two schemas into one that allows the values that both allow, for allOf.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

// Returns the conjunction of `a` and `b`, each true, false or an object that flattened() does not
// change (schema_resolver.h). Members that both have are joined by an allOf of their own, so
// merging is not recursive; of two lists of alternatives, one is merged into each alternative of
// the other. Annotations and definitions are dropped.
//
// Fails with kUnsupported, with the keyword's place, if two values of a keyword have no
// conjunction: multipleOf that is not whole, patternProperties beside additionalProperties of
// another schema.
Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& at);

}  // namespace forerun::grammar
