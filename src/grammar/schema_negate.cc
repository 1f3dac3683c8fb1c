#include "grammar/schema_negate.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/formats.h"

namespace forerun::grammar {
namespace {

constexpr int kMaxNegateDepth = 12;

// The opposite of keywords as alternatives; false if JSON Schema cannot express it.
class Negation {
 public:
  Negation(SchemaResolver& resolver, const std::string& at, int depth)
      : resolver_(resolver), at_(at), depth_(depth) {}

  Result<bool> add(const std::string& name, const Json& value) {
    if (name == "type") return add_types(value);
    if (name == "properties") return add_properties(value);
    if (name == "anyOf") return add_any_of(value);
    return add_simple(name, value);
  }

  Json result() {
    if (parts_.empty()) return false;
    if (parts_.size() == 1) return std::move(parts_[0]);
    return Json{{"anyOf", Json(std::move(parts_))}};
  }

 private:
  Result<bool> add_types(const Json& value) {
    FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(Json{{"type", value}}, at_));
    constexpr std::array<std::pair<const char*, uint8_t>, 5> kNames = {{{"null", kNullType},
                                                                        {"boolean", kBooleanType},
                                                                        {"object", kObjectType},
                                                                        {"array", kArrayType},
                                                                        {"string", kStringType}}};
    Json others = Json::array();
    for (const auto& [name, type] : kNames) {
      if ((types & type) == 0) others.push_back(name);
    }
    const int numbers = types & kNumberType;
    if (numbers == 0) others.push_back("number");
    if (numbers == kIntegerType) others.push_back(kFractionName);
    if (numbers == kFractionType) others.push_back("integer");
    if (!others.empty()) parts_.push_back(Json{{"type", std::move(others)}});
    return true;
  }

  Result<bool> add_properties(const Json& value) {
    if (!value.is_object()) return false;
    for (const auto& [name, schema] : value.items()) {
      FORERUN_ASSIGN_OR_RETURN(std::optional<Json> other,
                               negated(resolver_, schema, child_of(at_, name), depth_ + 1));
      if (!other) return false;
      if (*other == false) continue;
      parts_.push_back(Json{{"type", "object"},
                            {"required", Json::array({name})},
                            {"properties", Json{{name, std::move(*other)}}}});
    }
    return true;
  }

  Result<bool> add_any_of(const Json& value) {
    if (!value.is_array() || value.empty()) return false;
    Json all = Json::array();
    for (const Json& part : value) {
      FORERUN_ASSIGN_OR_RETURN(std::optional<Json> other,
                               negated(resolver_, part, at_, depth_ + 1));
      if (!other) return false;
      all.push_back(std::move(*other));
    }
    parts_.push_back(Json{{"allOf", std::move(all)}});
    return true;
  }

  bool add_simple(const std::string& name, const Json& value) {
    const auto add_part = [&](const char* type, const char* keyword, Json other) {
      parts_.push_back(Json{{"type", type}, {keyword, std::move(other)}});
      return true;
    };
    const bool list = value.is_array();
    const bool count = value.is_number_unsigned() && value < 1'000'000'000;
    if (name == "const") {
      parts_.push_back(Json{{kExcluded, Json::array({value})}});
      return true;
    }
    if (name == "enum" && list) {
      parts_.push_back(Json{{kExcluded, value}});
      return true;
    }
    if (name == kExcluded) {
      parts_.push_back(Json{{"enum", value}});
      return true;
    }
    if (name == "required" && list) {
      const auto is_string = [](const Json& key) { return key.is_string(); };
      if (!std::all_of(value.begin(), value.end(), is_string)) return false;
      for (const Json& key : value) add_part("object", kForbidden, Json::array({key}));
      return true;
    }
    if (name == kForbidden) {
      for (const Json& key : value) add_part("object", "required", Json::array({key}));
      return true;
    }
    if (name == "pattern" && value.is_string()) {
      return add_part("string", kTexts, Json::array({Json{{"notPattern", value}}}));
    }
    if (name == "minimum") return add_part("number", "exclusiveMaximum", value);
    if (name == "maximum") return add_part("number", "exclusiveMinimum", value);
    if (name == "exclusiveMinimum") return add_part("number", "maximum", value);
    if (name == "exclusiveMaximum") return add_part("number", "minimum", value);
    constexpr std::array<std::array<const char*, 3>, 3> kCounts = {
        {{"string", "minLength", "maxLength"},
         {"array", "minItems", "maxItems"},
         {"object", "minProperties", "maxProperties"}}};
    for (const auto& [type, least, most] : kCounts) {
      if (name == least && value == 0) return true;
      if (name == least && count) return add_part(type, most, value.get<int64_t>() - 1);
      if (name == most && count) return add_part(type, least, value.get<int64_t>() + 1);
    }
    const bool all = value == true || (value.is_object() && value.empty());
    return all && (name == "items" || name == "additionalProperties" || name == "propertyNames");
  }

  SchemaResolver& resolver_;
  const std::string& at_;
  const int depth_;
  std::vector<Json> parts_;
};

}  // namespace

Result<std::optional<Json>> negated(SchemaResolver& resolver, const Json& schema,
                                    const std::string& at, int depth) {
  if (depth > kMaxNegateDepth) return std::optional<Json>();
  // Handled here, since respelled() would call negated() again.
  if (schema.is_object() && schema.contains("not") && !has_assertions(schema, "not")) {
    return std::optional<Json>(schema.at("not"));
  }
  FORERUN_ASSIGN_OR_RETURN(const Json flat, resolver.flattened(schema, at, depth));
  if (flat.is_boolean()) return std::optional<Json>(Json(flat == false));
  Negation negation(resolver, at, depth);
  for (const auto& [name, value] : flat.items()) {
    if (!has_assertions(Json{{name, value}}, "")) continue;
    FORERUN_ASSIGN_OR_RETURN(const bool is_expressible, negation.add(name, value));
    if (!is_expressible) return std::optional<Json>();
  }
  return std::optional<Json>(negation.result());
}

}  // namespace forerun::grammar
