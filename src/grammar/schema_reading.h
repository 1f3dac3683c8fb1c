// The two ways to read a JSON schema: by the specification, or as its author probably means it.
#pragma once

#include <cstdint>

namespace forerun::grammar {

enum class SchemaReading : uint8_t {
  // By the specification: objects and tuples may have unlisted members, and a keyword of one kind
  // of value asserts nothing about the others. Properties may be in any order in an object with at
  // most nine required ones and without limits on their number, up to a number of such objects in
  // one schema; otherwise in the schema's order.
  kLetter,
  // The usual reading for a model's output: properties come in the schema's order, an object with
  // `properties` or `patternProperties` has no others unless additionalProperties allows them, an
  // array with a list of items ends with it unless minItems or the schema of further items asks for
  // more, and keywords of one kind of value imply that kind. Every text is also accepted by
  // kLetter.
  kIntent,
};

}  // namespace forerun::grammar
