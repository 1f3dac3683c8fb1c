#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "grammar/formats.h"

namespace forerun::grammar {
namespace {

// The kind of value that a keyword applies to; 0: any.
constexpr std::array<std::pair<std::string_view, uint8_t>, 44> kKeywords = {{
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"anyOf", 0},
    {"oneOf", 0},
    {"allOf", 0},
    {"not", 0},
    {"if", 0},
    {"then", 0},
    {"else", 0},
    {"$ref", 0},
    {"$dynamicRef", 0},
    {"$recursiveRef", 0},
    {kExcluded, 0},
    {"properties", kObjectType},
    {"patternProperties", kObjectType},
    {"propertyNames", kObjectType},
    {"required", kObjectType},
    {"additionalProperties", kObjectType},
    {"unevaluatedProperties", kObjectType},
    {"minProperties", kObjectType},
    {"maxProperties", kObjectType},
    {"dependencies", kObjectType},
    {"dependentRequired", kObjectType},
    {"dependentSchemas", kObjectType},
    {kForbidden, kObjectType},
    {"items", kArrayType},
    {"additionalItems", kArrayType},
    {"prefixItems", kArrayType},
    {"unevaluatedItems", kArrayType},
    {"contains", kArrayType},
    {"minItems", kArrayType},
    {"maxItems", kArrayType},
    {"uniqueItems", kArrayType},
    {"minLength", kStringType},
    {"maxLength", kStringType},
    {"pattern", kStringType},
    {"format", kStringType},
    {kTexts, kStringType},
    {"minimum", kNumberType},
    {"maximum", kNumberType},
    {"exclusiveMinimum", kNumberType},
    {"exclusiveMaximum", kNumberType},
    {"multipleOf", kNumberType},
}};

// Returns whether `value` asserts nothing for "unevaluatedProperties" and similar keywords.
bool says_nothing(std::string_view keyword, const Json& value, const Json& schema) {
  if (keyword == "contains") {
    const auto least = schema.find("minContains");
    return least != schema.end() && *least == 0 && !schema.contains("maxContains");
  }
  return value == true || (value.is_object() && value.empty());
}

}  // namespace

Status refuse_at(std::string_view at, std::string_view found, std::string_view accepted,
                 StatusCode code) {
  return Status(code, "schema: " + std::string(at.empty() ? "#" : at) + ": found " +
                          std::string(found) + "; accepted: " + std::string(accepted));
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

std::string child_of(std::string_view at, std::string_view name) {
  std::string pointer = std::string(at.empty() ? "#" : at) + "/";
  for (const char c : name) {
    if (c == '~' || c == '/') {
      pointer += c == '~' ? "~0" : "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

bool is_annotation(std::string_view keyword) {
  return std::none_of(kKeywords.begin(), kKeywords.end(),
                      [&](const auto& entry) { return entry.first == keyword; });
}

Status check_keywords(const Json& schema, const std::string& at) {
  for (const char* keyword :
       {"unevaluatedProperties", "unevaluatedItems", "contains", "$dynamicRef", "$recursiveRef"}) {
    const auto found = schema.find(keyword);
    if (found == schema.end() || says_nothing(keyword, *found, schema)) continue;
    return refuse_at(child_of(at, keyword), "the keyword \"" + std::string(keyword) + "\"",
                     "the keywords that Forerun supports", StatusCode::kUnsupported);
  }
  return {};
}

bool has_assertions(const Json& schema, std::string_view except) {
  for (const auto& [name, value] : schema.items()) {
    if (name == except || is_annotation(name)) continue;
    const bool unknown_format = name == "format" && value.is_string() &&
                                !pattern_of_format(value.template get_ref<const std::string&>());
    if (!unknown_format) return true;
  }
  return false;
}

uint8_t type_of_value(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_object()) return kObjectType;
  if (value.is_array()) return kArrayType;
  if (value.is_string()) return kStringType;
  if (value.is_number_float()) {
    const std::optional<Decimal> decimal = Decimal::parse(value.dump());
    return decimal && decimal->fraction.empty() ? kIntegerType : kFractionType;
  }
  return kIntegerType;
}

Result<uint8_t> types_of(const Json& schema, const std::string& at) {
  uint8_t types = kAllTypes;
  if (const auto found = schema.find("type"); found != schema.end()) {
    constexpr std::array<std::pair<std::string_view, uint8_t>, 8> kNames = {
        {{"null", kNullType},
         {"boolean", kBooleanType},
         {"object", kObjectType},
         {"array", kArrayType},
         {"string", kStringType},
         {"integer", kIntegerType},
         {"number", kNumberType},
         {kFractionName, kFractionType}}};
    types = 0;
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& name : list) {
      const auto known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) {
        return name.is_string() && name.get_ref<const std::string&>() == entry.first;
      });
      if (known == kNames.end()) {
        return refuse_at(child_of(at, "type"), shown(name),
                         "null, boolean, object, array, string, integer, number");
      }
      types = static_cast<uint8_t>(types | known->second);
    }
    if (list.empty()) return refuse_at(child_of(at, "type"), "no type", "at least one");
  }
  uint8_t listed = 0;
  if (const auto found = schema.find("const"); found != schema.end()) {
    listed = type_of_value(*found);
  } else if (const auto values = schema.find("enum"); values != schema.end()) {
    if (!values->is_array()) {
      return refuse_at(child_of(at, "enum"), shown(*values), "a list of values");
    }
    for (const Json& value : *values) listed = static_cast<uint8_t>(listed | type_of_value(value));
  } else {
    listed = kAllTypes;
  }
  return static_cast<uint8_t>(types & listed);
}

uint8_t types_suggested(const Json& schema) {
  uint8_t types = 0;
  for (const auto& [keyword, type] : kKeywords) {
    if (type == 0 || !schema.contains(keyword)) continue;
    // An unknown format asserts nothing, with any other keywords.
    const bool nothing =
        keyword == "format" && !has_assertions({{"format", schema.at("format")}}, "");
    if (!nothing) types = static_cast<uint8_t>(types | type);
  }
  return types == 0 ? uint8_t{kAllTypes} : types;
}

Result<std::optional<uint32_t>> count_at(const Json& schema, const char* keyword,
                                         const std::string& at) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return std::optional<uint32_t>();
  const std::optional<Decimal> value =
      found->is_number() ? Decimal::parse(found->dump()) : std::nullopt;
  constexpr int64_t kMax = 1'000'000'000;
  const bool most = std::string_view(keyword).starts_with("max");
  if (value && !value->negative && value->fraction.empty() && most && value->floor(kMax) >= kMax) {
    return std::optional<uint32_t>();  // no reply comes near it
  }
  if (!value || value->negative || !value->fraction.empty() || value->floor(kMax) >= kMax) {
    return refuse_at(child_of(at, keyword), shown(*found), "a whole number from 0 to 999,999,999");
  }
  return std::optional(static_cast<uint32_t>(value->floor(kMax)));
}

Result<std::optional<Decimal>> decimal_at(const Json& schema, const char* keyword,
                                          const std::string& at) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return std::optional<Decimal>();
  std::optional<Decimal> value = found->is_number() ? Decimal::parse(found->dump()) : std::nullopt;
  if (!value) {
    return refuse_at(child_of(at, keyword), shown(*found), "a number with an exponent up to 40");
  }
  return value;
}

Result<std::optional<std::string>> string_at(const Json& schema, const char* keyword,
                                             const std::string& at) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return std::optional<std::string>();
  if (!found->is_string()) return refuse_at(child_of(at, keyword), shown(*found), "a string");
  return std::optional(found->get<std::string>());
}

}  // namespace forerun::grammar
