// Reads a JSON schema of any draft from 4 to 2020-12 as rules for a reply.
//
// Supported, in addition to true, false and {}:
//   type (one or a list), enum, const, anyOf, oneOf (if the alternatives are found to exclude one
//   another, schema_exclusive.h, or can be read without one another), allOf (schema_merge.h), not
//   and if/then/else (of schemas with an opposite, schema_negate.h), $ref within the document (any
//   JSON pointer, "#", anchors; recursion included);
//   objects: properties, patternProperties, propertyNames (pattern, format, enum, const, lengths),
//   required, additionalProperties, dependencies, dependentRequired, dependentSchemas,
//   maxProperties, minProperties up to the listed properties and one;
//   arrays: items and prefixItems, in the older spelling too, minItems, maxItems, uniqueItems (of
//   up to 8 listed values); strings: minLength, maxLength, pattern (pattern.h), format (formats.h);
//   numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum (draft 4's booleans too),
//   multipleOf (up to 1000, or up to 1000 steps of a decimal place).
// Refused by name: contains, unevaluatedProperties, unevaluatedItems, $dynamicRef, $recursiveRef,
//   $ref to other documents, and values of the above that are out of bounds. All other names, and
//   unknown formats, are annotations.
//
// Texts are a subset of what the schema allows, in the form of json_rules.h, so every reply is
// valid, but not every valid text can be a reply:
//  - names of additional properties differ from all listed, and have one spelling;
//  - the order of properties, and SchemaReading::kIntent, follow schema_reading.h;
//  - texts of a pattern without an upper bound of its own may end before a large maxLength if it
//    cannot be counted (schema_string.cc), but not below 256 characters;
//  - integers have up to 18 digits and no fraction; numbers with a bound or multipleOf have no
//    exponent.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"
#include "grammar/schema_reading.h"

namespace forerun::grammar {

// Adds the rules of `schema`, a JSON text, to `rules` and returns the rule of the whole reply.
//
// Fails with kInvalidArgument, kUnsupported or kResourceExhausted, as Grammar::from_json_schema()
// does.
Result<RuleId> read_json_schema(std::string_view schema, const GrammarLimits& limits,
                                SchemaReading reading, RuleSet& rules);

}  // namespace forerun::grammar
