#include "grammar/schema_spelling.h"

#include <array>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_negate.h"

namespace forerun::grammar {
namespace {

constexpr std::array<const char*, 8> kRespelled = {"not",
                                                   "if",
                                                   "then",
                                                   "else",
                                                   "dependencies",
                                                   "dependentRequired",
                                                   "dependentSchemas",
                                                   "additionalItems"};

// Assertions that drafts 3 and 4 do not have.
constexpr std::array<const char*, 6> kSinceDraft6 = {"const", "contains", "propertyNames",
                                                     "if",    "then",     "else"};

bool is_bool_bound(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found != schema.end() && found->is_boolean();
}

bool has_list_of_items(const Json& schema) {
  const auto items = schema.find("items");
  return items != schema.end() && items->is_array();
}

Json name_and(const std::string& name, const Json& more) {
  Json required = Json::array({name});
  for (const Json& other : more) required.push_back(other);
  return Json{{"required", std::move(required)}};
}

// Returns a schema of objects without `name`, or with it and satisfying `then`.
Json absent_or(const std::string& name, Json then) {
  return Json{{"anyOf", Json::array({Json{{kForbidden, Json::array({name})}}, std::move(then)})}};
}

// Converts items: [...] and additionalItems to prefixItems and items.
void respell_items(Json& schema) {
  Json rest;
  if (const auto found = schema.find("additionalItems"); found != schema.end()) rest = *found;
  schema.erase("additionalItems");
  if (!has_list_of_items(schema)) return;
  Json listed = std::move(schema["items"]);
  schema.erase("items");
  if (!listed.empty()) schema["prefixItems"] = std::move(listed);
  if (!rest.is_null()) schema["items"] = std::move(rest);
}

// Converts draft 4's booleans beside minimum and maximum.
void respell_bound(Json& schema, const char* exclusive, const char* inclusive) {
  if (!is_bool_bound(schema, exclusive)) return;
  const bool excludes = schema.at(exclusive).get<bool>();
  schema.erase(exclusive);
  if (!excludes || !schema.contains(inclusive)) return;
  Json bound = schema.at(inclusive);
  schema.erase(inclusive);
  schema[exclusive] = std::move(bound);
}

Status respell_dependencies(Json& schema, const std::string& at, Json& parts) {
  for (const char* keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) continue;
    const Json listed = *found;
    schema.erase(keyword);
    const std::string place = child_of(at, keyword);
    if (!listed.is_object()) return refuse_at(place, shown(listed), "an object");
    for (const auto& [name, value] : listed.items()) {
      if (value == true) continue;
      if (value.is_array()) {
        if (!value.empty()) parts.push_back(absent_or(name, name_and(name, value)));
      } else if (value.is_string()) {  // draft 3
        parts.push_back(absent_or(name, name_and(name, Json::array({value}))));
      } else {
        parts.push_back(
            absent_or(name, Json{{"allOf", Json::array({name_and(name, Json::array()), value})}}));
      }
    }
  }
  return {};
}

}  // namespace

bool needs_respelling(const Json& schema, const SchemaDraft& draft) {
  for (const char* keyword : kRespelled) {
    if (schema.contains(keyword)) return true;
  }
  for (const char* keyword : kSinceDraft6) {
    if (draft.before_draft_6 && schema.contains(keyword)) return true;
  }
  return has_list_of_items(schema) || is_bool_bound(schema, "exclusiveMinimum") ||
         is_bool_bound(schema, "exclusiveMaximum");
}

Result<Json> respelled(SchemaResolver& resolver, const Json& schema, const SchemaDraft& draft,
                       const std::string& at, int depth) {
  if (draft.lone_references && schema.contains("$ref")) return Json{{"$ref", schema.at("$ref")}};
  if (draft.before_draft_6) {
    Json known = schema;
    size_t erased = 0;
    for (const char* keyword : kSinceDraft6) erased += known.erase(keyword);
    if (erased > 0) return respelled(resolver, known, draft, at, depth);
  }
  Json result = schema;
  Json parts = Json::array();
  if (const auto found = result.find("allOf"); found != result.end()) {
    if (!found->is_array()) {
      return refuse_at(child_of(at, "allOf"), shown(*found), "a list of schemas");
    }
    parts = *found;
  }
  respell_items(result);
  respell_bound(result, "exclusiveMinimum", "minimum");
  respell_bound(result, "exclusiveMaximum", "maximum");
  FORERUN_RETURN_IF_ERROR(respell_dependencies(result, at, parts));
  const auto opposite = [&](const char* keyword) -> Result<Json> {
    FORERUN_ASSIGN_OR_RETURN(std::optional<Json> other, negated(resolver, schema.at(keyword),
                                                                child_of(at, keyword), depth + 1));
    if (other) return std::move(*other);
    return refuse_at(child_of(at, keyword), "the keyword \"" + std::string(keyword) + "\" of this",
                     "it of type, enum, const, required, properties, bounds, lengths, pattern and "
                     "anyOf of these",
                     StatusCode::kUnsupported);
  };
  if (schema.contains("not")) {
    FORERUN_ASSIGN_OR_RETURN(Json other, opposite("not"));
    parts.push_back(std::move(other));
  }
  if (schema.contains("if") && (schema.contains("then") || schema.contains("else"))) {
    FORERUN_ASSIGN_OR_RETURN(Json other, opposite("if"));
    Json held = Json::array({schema.at("if")}), failed = Json::array({std::move(other)});
    if (schema.contains("then")) held.push_back(schema.at("then"));
    if (schema.contains("else")) failed.push_back(schema.at("else"));
    parts.push_back(Json{{"anyOf", Json::array({Json{{"allOf", std::move(held)}},
                                                Json{{"allOf", std::move(failed)}}})}});
  }
  for (const char* keyword : {"not", "if", "then", "else"}) result.erase(keyword);
  result.erase("allOf");
  if (!parts.empty()) result["allOf"] = std::move(parts);
  return result;
}

}  // namespace forerun::grammar
