// Keywords of JSON Schema: the known ones, and functions that read their values. Places in messages
// are JSON pointers within the schema.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "grammar/decimal.h"

namespace forerun::grammar {

using Json = nlohmann::ordered_json;

enum : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kObjectType = 4,
  kArrayType = 8,
  kStringType = 16,
  kIntegerType = 32,
  kFractionType = 64,  // numbers that are not integers
  kNumberType = kIntegerType | kFractionType,
  kAllTypes = 127,
};

// Returns the failure "schema: <at>: found <found>; accepted: <accepted>".
Status refuse_at(std::string_view at, std::string_view found, std::string_view accepted,
                 StatusCode code = StatusCode::kInvalidArgument);

// Returns `value` as compact JSON, cut to about 60 bytes.
std::string shown(const Json& value);

// Returns `at` with one more step, escaped for JSON pointers.
std::string child_of(std::string_view at, std::string_view name);

// Keywords that only this folder writes, into schemas that it merges. A document with such a name
// is refused (schema.cc), so that no client uses them.
constexpr char kInternalMark = '\x01';
constexpr const char* kForbidden =
    "\x01"
    "forbidden";  // names that an object must not have
constexpr const char* kExcluded =
    "\x01"
    "excluded";  // values that are not allowed
// Patterns that a string must match, or not, in addition to `pattern` and `format`: a list of
// {"pattern"}, {"format"} and {"notPattern"}.
constexpr const char* kTexts =
    "\x01"
    "texts";
constexpr const char* kFractionName =
    "\x01"
    "fraction";  // a type: numbers that are not integers

// Returns whether a keyword asserts nothing: no draft from 4 to 2020-12 has it as an assertion.
bool is_annotation(std::string_view keyword);
// Refuses the first keyword of `schema` with an unsupported assertion.
Status check_keywords(const Json& schema, const std::string& at);
// Returns whether `schema` has a keyword other than annotations, definitions, unknown formats and
// `except`.
bool has_assertions(const Json& schema, std::string_view except);

// Returns the kinds that `type`, or the values of enum or const, allow; kAllTypes if none is given.
Result<uint8_t> types_of(const Json& schema, const std::string& at);
uint8_t type_of_value(const Json& value);
// Returns the kinds that keywords of one kind suggest if there is no type; kAllTypes if there are
// none.
uint8_t types_suggested(const Json& schema);

// Returns nothing if the keyword is absent.
Result<std::optional<uint32_t>> count_at(const Json& schema, const char* keyword,
                                         const std::string& at);
Result<std::optional<Decimal>> decimal_at(const Json& schema, const char* keyword,
                                          const std::string& at);
Result<std::optional<std::string>> string_at(const Json& schema, const char* keyword,
                                             const std::string& at);

}  // namespace forerun::grammar
