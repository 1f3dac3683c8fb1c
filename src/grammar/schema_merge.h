// allOf: two schemas as one that allows what both do.
#pragma once

#include <string>

#include "forerun/status.h"
#include "grammar/schema_keywords.h"

namespace forerun::grammar {

// The conjunction of `a` and `b`, each true, false or an object without $ref and allOf. Members
// that both have are joined by an allOf of their own, so merging is not recursive. Annotations and
// definitions are dropped.
//
// kUnsupported, with the keyword's place, where two values of a keyword have no conjunction that is
// one value: pattern, format, anyOf and oneOf that differ, prefixItems beside other items.
Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& at);

}  // namespace forerun::grammar
