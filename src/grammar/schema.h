// Reads a JSON schema: the subset that structured outputs use, as rules of what a reply may be.
//
// Supported, beside true, false and {}:
//   type (one or a list), enum, const, anyOf, oneOf (where the alternatives exclude one another for
//   a reason that is found, schema_exclusive.h), allOf of what can be merged (schema_merge.h), $ref
//   within the document (any JSON pointer, "#"; recursion included);
//   objects: properties, required, additionalProperties; minProperties and maxProperties where the
//   rest implies them, and minProperties 1;
//   arrays: items, prefixItems, minItems, maxItems;
//   strings: minLength, maxLength, pattern (pattern.h), format (formats.h; not beside pattern);
//   numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (integers up to
//   1000).
// Ignored: title, description, default, examples, deprecated, readOnly, writeOnly, $schema, $id,
//   $comment, and names that begin with "x-". Everything else is refused by name.
//
// Texts are a subset of what the schema allows, in the form of json_rules.h, so every reply is
// valid, but not every valid text can be a reply:
//  - properties come in the schema's order, then additional ones, whose names differ from all
//  listed;
//  - without additionalProperties an object with `properties` has no others, and without `items` an
//    array with `prefixItems` ends with those, unless minItems asks for more;
//  - without `type`, keywords of one kind of value alone (say `properties`) mean that kind;
//  - integers have up to 18 digits and no fraction; numbers with a bound have no exponent.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// Adds the rules of `schema`, a JSON text, to `rules` and returns the one of the whole reply.
//
// Fails with kInvalidArgument, kUnsupported or kResourceExhausted, as Grammar::from_json_schema().
Result<RuleId> read_json_schema(std::string_view schema, const GrammarLimits& limits,
                                RuleSet& rules);

}  // namespace forerun::grammar
