#include "grammar/schema_merge.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/pattern.h"

namespace forerun::grammar {
namespace {

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  return Json{{"allOf", Json::array({a, b})}};
}

// Returns the types that both schemas allow, as a list: "number" and "integer" have "integer" in
// common.
Json common_types(const Json& a, const Json& b) {
  const auto list = [](const Json& types) {
    return types.is_array() ? types : Json::array({types});
  };
  Json common = Json::array();
  const Json first = list(a), second = list(b);
  const auto part_of_number = [](const Json& type) {
    return type == "integer" || type == kFractionName;
  };
  for (const Json& x : first) {
    for (const Json& y : second) {
      Json met = x == "number" && part_of_number(y) ? y : x;
      const bool meet = met == y || (y == "number" && part_of_number(x));
      const bool new_one = std::find(common.begin(), common.end(), met) == common.end();
      if (meet && new_one) common.push_back(std::move(met));
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

const Json* member(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

// Returns the schema of properties that an object schema does not list; null if it has none.
const Json* unlisted(const Json& schema) {
  const Json* additional = member(schema, "additionalProperties");
  return additional && *additional != true ? additional : nullptr;
}

bool some_pattern_matches(const Json& schema, const std::string& name) {
  const Json* patterns = member(schema, "patternProperties");
  if (!patterns || !patterns->is_object()) return false;
  return std::any_of(patterns->items().begin(), patterns->items().end(), [&](const auto& entry) {
    const Result<CharNfa> nfa = read_pattern(entry.key(), GrammarLimits());
    return nfa.ok() && accepts(*nfa, name);
  });
}

// Returns `schema`, of a property that only one side lists, merged with the other side's schema for
// it. Patterns of names are left out: they are added where a property is read.
Json with_unlisted(const Json& schema, const std::string& name, const Json& other) {
  if (!unlisted(other) || some_pattern_matches(other, name)) return schema;
  return both(schema, *unlisted(other));
}

void merge_properties(const Json& a, const Json& b, Json& merged) {
  const Json none = Json::object();
  const auto properties_of = [&](const Json& schema) -> const Json& {
    const Json* found = member(schema, "properties");
    return found && found->is_object() ? *found : none;
  };
  const Json &first = properties_of(a), &second = properties_of(b);
  if (!a.contains("properties") && !b.contains("properties")) return;
  Json properties = Json::object();
  for (const auto& [name, schema] : first.items()) {
    const auto other = second.find(name);
    properties[name] =
        other != second.end() ? both(schema, *other) : with_unlisted(schema, name, b);
  }
  for (const auto& [name, schema] : second.items()) {
    if (!first.contains(name)) properties[name] = with_unlisted(schema, name, a);
  }
  merged["properties"] = std::move(properties);
}

// Refuses patterns of names of one side if the other side restricts unlisted properties.
Status merge_name_patterns(const Json& a, const Json& b, const std::string& at, Json& merged) {
  const Json none = Json::object();
  const Json* in_a = member(a, "patternProperties");
  const Json* in_b = member(b, "patternProperties");
  if (!in_a && !in_b) return {};
  const Json &first = in_a ? *in_a : none, &second = in_b ? *in_b : none;
  const std::string place = child_of(at, "patternProperties");
  if (!first.is_object()) return refuse_at(place, shown(first), "an object of schemas");
  if (!second.is_object()) return refuse_at(place, shown(second), "an object of schemas");
  Json patterns = first;
  for (const auto& [pattern, schema] : second.items()) {
    const auto other = patterns.find(pattern);
    patterns[pattern] = other == patterns.end() ? schema : both(*other, schema);
  }
  const bool grew = patterns.size() != first.size(), grew_other = patterns.size() != second.size();
  if ((grew && unlisted(a)) || (grew_other && unlisted(b))) {
    return refuse_at(place, "patternProperties beside additionalProperties of another schema",
                     "both in one of the schemas that are joined", StatusCode::kUnsupported);
  }
  merged["patternProperties"] = std::move(patterns);
  return {};
}

// Merges items position by position, then the schemas of further items.
void merge_items(const Json& a, const Json& b, Json& merged) {
  const Json none = Json::array();
  const auto listed = [&](const Json& schema) -> const Json& {
    const Json* found = member(schema, "prefixItems");
    return found && found->is_array() ? *found : none;
  };
  const Json *rest_a = member(a, "items"), *rest_b = member(b, "items");
  const Json &first = listed(a), &second = listed(b);
  Json items = Json::array();
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const Json* x = i < first.size() ? &first[i] : rest_a;
    const Json* y = i < second.size() ? &second[i] : rest_b;
    items.push_back(x && y ? both(*x, *y) : x ? *x : y ? *y : Json(true));
  }
  if (!items.empty()) merged["prefixItems"] = std::move(items);
  if (rest_a || rest_b) {
    merged["items"] = rest_a && rest_b ? both(*rest_a, *rest_b) : rest_a ? *rest_a : *rest_b;
  }
}

// Combines every alternative of `a` with the alternatives of `b`.
Json merge_alternatives(const std::string& keyword, const Json& a, const Json& b) {
  Json parts = Json::array();
  for (const Json& part : a) {
    parts.push_back(Json{{"allOf", Json::array({part, Json{{keyword, b}}})}});
  }
  return parts;
}

// Returns the tighter of two bounds; `least`: the larger one.
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
  const bool lists = a.is_array() && b.is_array();
  if ((name == "required" || name == kForbidden || name == kExcluded || name == kTexts) && lists) {
    Json all = a;
    for (const Json& key : b) {
      if (std::find(all.begin(), all.end(), key) == all.end()) all.push_back(key);
    }
    return all;
  }
  if (name == "additionalProperties" || name == "propertyNames") return both(a, b);
  if ((name == "anyOf" || name == "oneOf") && lists) return merge_alternatives(name, a, b);
  if (name == "unevaluatedProperties" || name == "unevaluatedItems" || name == "contains") return a;
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

// Returns the schema with `const` as `enum`, without members that assert nothing.
Json normalized(const Json& schema) {
  Json result = Json::object();
  for (const auto& [name, value] : schema.items()) {
    if (is_annotation(name)) continue;
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
  Json first = normalized(a), second = normalized(b);
  for (const char* keyword : {"pattern", "format"}) {
    const auto x = first.find(keyword), y = second.find(keyword);
    if (x == first.end() || y == second.end() || *x == *y) continue;
    Json text = Json{{keyword, *y}};
    second.erase(keyword);
    second[kTexts].push_back(std::move(text));
  }
  Json merged = Json::object();
  for (const Json* schema : {&first, &second}) {
    const Json& other = schema == &first ? second : first;
    for (const auto& [name, value] : schema->items()) {
      if (merged.contains(name) || name == "properties" || name == "patternProperties" ||
          name == "items" || name == "prefixItems") {
        continue;
      }
      const auto found = other.find(name);
      if (found == other.end()) {
        merged[name] = value;
      } else {
        FORERUN_ASSIGN_OR_RETURN(merged[name], merge_keyword(name, value, *found, at));
      }
    }
  }
  if (const Json* types = member(merged, "type"); types && types->is_array() && types->empty()) {
    return Json(false);
  }
  merge_properties(first, second, merged);
  FORERUN_RETURN_IF_ERROR(merge_name_patterns(first, second, at, merged));
  merge_items(first, second, merged);
  return merged;
}

}  // namespace forerun::grammar
