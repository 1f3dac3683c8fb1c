// How a schema is taken where people rarely write what the specification says.
#pragma once

#include <cstdint>

namespace forerun::grammar {

enum class SchemaReading : uint8_t {
  // As the specification has it: objects and tuples may have members that are not listed,
  // properties
  // have any order (where an object has no more than nine required ones, and the schema no more of
  // such objects than a limit, and no counts of properties to keep; else the schema's), and a
  // keyword of one kind of value says nothing
  // of the others.
  kLetter,
  // As it is meant where a model writes: properties come in the schema's order, an object with
  // `properties` or `patternProperties` has no
  // others unless additionalProperties says so, an array with a list of items ends with it unless
  // minItems or what is said of further items asks for more, and keywords of one kind of value mean
  // that kind. Every text is one that kLetter accepts too.
  kIntent,
};

}  // namespace forerun::grammar
