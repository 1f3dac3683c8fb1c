// Keywords of JSON Schema: which Forerun knows, and reading their values. Places in messages are
// JSON pointers within the schema.
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
  kFractionType = 64,  // numbers that are no integers
  kNumberType = kIntegerType | kFractionType,
  kAllTypes = 127,
};

// "schema: <at>: found <found>; accepted: <accepted>".
Status refuse_at(std::string_view at, std::string_view found, std::string_view accepted,
                 StatusCode code = StatusCode::kInvalidArgument);

// `value` as compact JSON, cut to some 60 bytes.
std::string shown(const Json& value);

// `at` and one more step, escaped as JSON pointers demand.
std::string child_of(std::string_view at, std::string_view name);

// Keywords that only this folder writes, into schemas that it merges. A document with such a name
// is refused (schema.cc), so that nobody else does.
constexpr char kInternalMark = '\x01';
constexpr const char* kForbidden =
    "\x01"
    "forbidden";  // the names that an object must not have
constexpr const char* kExcluded =
    "\x01"
    "excluded";  // the values that are not allowed
// Patterns that a string must match, or not, beside `pattern` and `format`: a list of {"pattern"},
// {"format"} and {"notPattern"}.
constexpr const char* kTexts =
    "\x01"
    "texts";
constexpr const char* kFractionName =
    "\x01"
    "fraction";  // a type: numbers that are no integers

// Whether a keyword asserts nothing: no draft from 4 to 2020-12 has it as an assertion.
bool is_annotation(std::string_view keyword);
// Refuses the first keyword of `schema` that asserts what Forerun does not do.
Status check_keywords(const Json& schema, const std::string& at);
// Whether `schema` has a keyword beside annotations, definitions, formats that are not known and
// `except`.
bool has_assertions(const Json& schema, std::string_view except);

// The kinds that `type`, or the values of enum or const, allow; kAllTypes where nothing is said.
Result<uint8_t> types_of(const Json& schema, const std::string& at);
uint8_t type_of_value(const Json& value);
// The kinds that keywords of one kind alone suggest where there is no type: kAllTypes if none.
uint8_t types_suggested(const Json& schema);

// Nothing where the keyword is absent.
Result<std::optional<uint32_t>> count_at(const Json& schema, const char* keyword,
                                         const std::string& at);
Result<std::optional<Decimal>> decimal_at(const Json& schema, const char* keyword,
                                          const std::string& at);
Result<std::optional<std::string>> string_at(const Json& schema, const char* keyword,
                                             const std::string& at);

}  // namespace forerun::grammar
