// The two ways to read a JSON schema: as the specification has it, or as its author probably means
// it.
#pragma once

#include <cstdint>

namespace forerun::grammar {

enum class SchemaReading : uint8_t {
  // What the specification says: objects and tuples may have members that are not listed, and a
  // keyword of one kind of value says nothing of the others. Properties have any order in an object
  // with no more than nine required ones and no numbers of properties to count, up to a limit of
  // such objects in one schema; else the schema's.
  kLetter,
  // What is meant where a model writes: properties come in the schema's order, an object with
  // `properties` or `patternProperties` has no others unless additionalProperties says so, an array
  // with a list of items ends with it unless minItems or what is said of further items asks for
  // more, and keywords of one kind of value mean that kind. Every text is one that kLetter accepts
  // too.
  kIntent,
};

}  // namespace forerun::grammar
