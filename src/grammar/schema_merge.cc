#include "grammar/schema_merge.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace forerun::grammar {
namespace {

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  return Json{{"allOf", Json::array({a, b})}};
}

// Types as a list; "number" and "integer" meet in "integer".
Json common_types(const Json& a, const Json& b) {
  const auto list = [](const Json& types) {
    return types.is_array() ? types : Json::array({types});
  };
  Json common = Json::array();
  const Json first = list(a), second = list(b);
  for (const Json& x : first) {
    for (const Json& y : second) {
      const bool numbers = (x == "number" && y == "integer") || (x == "integer" && y == "number");
      Json met = numbers ? Json("integer") : x;
      const bool new_one = std::find(common.begin(), common.end(), met) == common.end();
      if ((x == y || numbers) && new_one) common.push_back(std::move(met));
    }
  }
  return common;
}

Json common_values(const Json& a, const Json& b) {
  Json common = Json::array();
  for (const Json& x : a) {
    if (std::find(b.begin(), b.end(), x) != b.end()) common.push_back(x);
  }
  return common;
}

// What an object schema says of a property that it does not list; null: nothing.
const Json* unlisted(const Json& schema) {
  const auto found = schema.find("additionalProperties");
  return found == schema.end() ? nullptr : &*found;
}

void merge_properties(const Json& a, const Json& b, Json& merged) {
  const Json none = Json::object();
  const auto properties_of = [&](const Json& schema) -> const Json& {
    const auto found = schema.find("properties");
    return found == schema.end() || !found->is_object() ? none : *found;
  };
  const Json &first = properties_of(a), &second = properties_of(b);
  if (!a.contains("properties") && !b.contains("properties")) return;
  Json properties = Json::object();
  for (const auto& [name, schema] : first.items()) {
    if (const auto other = second.find(name); other != second.end()) {
      properties[name] = both(schema, *other);
    } else {
      properties[name] = unlisted(b) ? both(schema, *unlisted(b)) : schema;
    }
  }
  for (const auto& [name, schema] : second.items()) {
    if (!first.contains(name)) {
      properties[name] = unlisted(a) ? both(schema, *unlisted(a)) : schema;
    }
  }
  merged["properties"] = std::move(properties);
}

// The tighter of two bounds; `least`: the larger one.
Json tighter(const Json& a, const Json& b, bool least) {
  const bool larger = a.get<double>() > b.get<double>();
  return larger == least ? a : b;
}

Result<Json> merge_keyword(const std::string& name, const Json& a, const Json& b,
                           const std::string& at) {
  if (a == b) return a;
  const auto conflict = [&](const char* accepted) {
    return refuse_at(child_of(at, name), shown(a) + " together with " + shown(b), accepted,
                     StatusCode::kUnsupported);
  };
  if (name == "type") return common_types(a, b);
  if (name == "enum" && a.is_array() && b.is_array()) return common_values(a, b);
  if (name == "required" && a.is_array() && b.is_array()) {
    Json all = a;
    for (const Json& key : b) {
      if (std::find(all.begin(), all.end(), key) == all.end()) all.push_back(key);
    }
    return all;
  }
  if (name == "additionalProperties" || name == "items") return both(a, b);
  if (name == "uniqueItems") return Json(a == true || b == true);
  if (name.starts_with("min") || name.starts_with("max") || name.starts_with("exclusiveM")) {
    if (!a.is_number() || !b.is_number()) return conflict("numbers");
    return tighter(a, b, name.starts_with("min") || name == "exclusiveMinimum");
  }
  if (name == "multipleOf" && a.is_number_integer() && b.is_number_integer() && a > 0 && b > 0 &&
      a < 1'000'000 && b < 1'000'000) {
    return Json(std::lcm(a.get<int64_t>(), b.get<int64_t>()));
  }
  return conflict("one value of this keyword within allOf, anyOf and their siblings");
}

// `const` as `enum`, without what says nothing.
Json normalized(const Json& schema) {
  Json result = Json::object();
  for (const auto& [name, value] : schema.items()) {
    if (name == "$defs" || name == "definitions" || is_annotation(name)) continue;
    if (name == "const") {
      const auto values = result.find("enum");
      result["enum"] = values == result.end() ? Json::array({value})
                                              : common_values(Json::array({value}), *values);
    } else if (name == "enum" && result.contains("enum") && value.is_array()) {
      result["enum"] = common_values(result["enum"], value);
    } else {
      result[name] = value;
    }
  }
  return result;
}

}  // namespace

Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& at) {
  if (a == false || b == false) return Json(false);
  if (a == true) return b;
  if (b == true) return a;
  const Json first = normalized(a), second = normalized(b);
  if ((first.contains("prefixItems") &&
       (second.contains("items") || second.contains("prefixItems"))) ||
      (second.contains("prefixItems") && first.contains("items"))) {
    return refuse_at(child_of(at, "prefixItems"), "prefixItems beside other items",
                     "items or prefixItems in one of the schemas that allOf joins",
                     StatusCode::kUnsupported);
  }
  Json merged = Json::object();
  for (const Json* schema : {&first, &second}) {
    const Json& other = schema == &first ? second : first;
    for (const auto& [name, value] : schema->items()) {
      if (name == "properties" || merged.contains(name)) continue;
      const auto found = other.find(name);
      if (found == other.end()) {
        merged[name] = value;
      } else {
        FORERUN_ASSIGN_OR_RETURN(merged[name], merge_keyword(name, value, *found, at));
      }
    }
  }
  merge_properties(first, second, merged);
  return merged;
}

}  // namespace forerun::grammar
