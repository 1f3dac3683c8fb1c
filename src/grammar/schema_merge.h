// Merges two schemas into one that allows what both allow, for allOf.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

// The conjunction of `a` and `b`, each true, false or an object that flattened() leaves as it is
// (schema_resolver.h). Members that both have are joined by an allOf of their own, so merging is
// not recursive; of two lists of alternatives, one goes into each alternative of the other.
// Annotations and definitions are dropped.
//
// kUnsupported, with the keyword's place, where two values of a keyword have no conjunction:
// multipleOf that is not whole, patternProperties beside additionalProperties of another schema.
Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& at);

}  // namespace forerun::grammar
