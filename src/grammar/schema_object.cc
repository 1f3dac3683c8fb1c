#include "grammar/schema_object.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"

namespace forerun::grammar {
namespace {

// Limits of the required properties of an object with properties in any order, and of the states of
// all such objects.
constexpr size_t kMaxUnordered = 9, kMaxUnorderedStates = 8000;

bool lists(const Json& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<PropertyCounts> read_property_counts(const Json& schema, const std::string& at,
                                            const std::vector<Property>& properties, bool open) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> min,
                           count_at(schema, "minProperties", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> max,
                           count_at(schema, "maxProperties", at));
  const auto possible = static_cast<size_t>(
      std::count_if(properties.begin(), properties.end(),
                    [](const Property& property) { return property.possible; }));
  // Unlisted names may repeat, and a repeated name is one property.
  if (min && open && *min > possible + 1) {
    return refuse_at(child_of(at, "minProperties"), std::to_string(*min),
                     "1, or no more than there are listed properties and one",
                     StatusCode::kUnsupported);
  }
  if (min && !open && *min > possible) return PropertyCounts{*min, 0};
  return PropertyCounts{min.value_or(0), max.value_or(kUnbounded)};
}

}  // namespace

Result<ExprId> ObjectReader::read(const Json& schema, const std::string& at, int depth) {
  std::vector<std::string> names;
  FORERUN_ASSIGN_OR_RETURN(const NamePatterns patterns, read_name_patterns(context_, schema, at));
  FORERUN_ASSIGN_OR_RETURN(std::vector<Property> properties,
                           read_properties(schema, at, depth, names, patterns));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<ExprId> additional,
                           read_additional(schema, at, depth, names, patterns));
  size_t required = 0, possible = 0;
  for (const Property& property : properties) {
    if (property.required && !property.possible) return context_.rules.never();
    required += property.required;
    possible += property.possible;
  }
  FORERUN_ASSIGN_OR_RETURN(PropertyCounts counts,
                           read_property_counts(schema, at, properties, additional.has_value()));
  if (counts.max < std::max<size_t>(required, counts.min)) return context_.rules.never();
  const bool free = counts.min <= std::max<size_t>(required, 1) &&
                    (counts.max == kUnbounded || (!additional && possible <= counts.max));
  if (!free) return counted_object(context_, properties, additional, counts, at);
  const bool may_be_empty = counts.min == 0;
  const bool plain = names.empty() && additional && may_be_empty;
  if (plain && !schema.contains("additionalProperties") && patterns.patterns.empty() &&
      !patterns.all) {
    return context_.json.object();
  }
  if (context_.resolver.reading() == SchemaReading::kLetter && required <= kMaxUnordered &&
      (unordered_states_ += size_t{1} << required) <= kMaxUnorderedStates) {
    return unordered_object(context_, properties, additional, may_be_empty);
  }
  return ordered_object(context_, std::move(properties), additional, may_be_empty);
}

Result<std::vector<Property>> ObjectReader::read_properties(const Json& schema,
                                                            const std::string& at, int depth,
                                                            std::vector<std::string>& names,
                                                            const NamePatterns& patterns) {
  const Json none = Json::object(), no_names = Json::array();
  const auto found = schema.find("properties");
  const Json& listed = found == schema.end() ? none : *found;
  const std::string place = child_of(at, "properties");
  if (!listed.is_object()) return refuse_at(place, shown(listed), "an object of schemas");
  const auto demanded = schema.find("required");
  const Json& required = demanded == schema.end() ? no_names : *demanded;
  const auto is_string = [](const Json& name) { return name.is_string(); };
  if (!required.is_array() || !std::all_of(required.begin(), required.end(), is_string)) {
    return refuse_at(child_of(at, "required"), shown(required), "a list of names");
  }
  const auto banned = schema.find(kForbidden);
  const Json& forbidden = banned == schema.end() ? no_names : *banned;
  std::vector<Property> properties;
  std::set<std::string> seen;
  // `listed_schema`: the name's own schema, or null; schemas of matching patterns are added.
  const auto add = [&](const std::string& name, const Json* listed_schema,
                       const std::string& listed_at) -> Status {
    if (!seen.insert(name).second) return {};
    bool possible = !patterns.none && !lists(forbidden, name);
    if (patterns.all && !accepts(*patterns.all, name)) possible = false;
    Json parts = Json::array();
    if (listed_schema) parts.push_back(*listed_schema);
    for (const auto& [nfa, value] : patterns.patterns) {
      if (accepts(nfa, name)) parts.push_back(value);
    }
    ExprId value = context_.rules.never();
    if (possible && parts.size() == 1) {
      FORERUN_ASSIGN_OR_RETURN(value, context_.read(parts[0], listed_at, depth + 1));
    } else if (possible) {
      FORERUN_ASSIGN_OR_RETURN(
          value,
          context_.read(parts.empty() ? Json(true) : Json{{"allOf", parts}}, listed_at, depth + 1));
    }
    names.push_back(name);
    properties.push_back({context_.json.member(name, value), lists(required, name),
                          !context_.is_never(value), name.size() + 4});
    return {};
  };
  for (const auto& [name, value] : listed.items()) {
    FORERUN_RETURN_IF_ERROR(add(name, &value, child_of(place, name)));
  }
  // Unlisted names in `required` take a pattern's schema, or that of additional properties.
  const auto additional = schema.find("additionalProperties");
  for (const Json& name : required) {
    const std::string& text = name.get_ref<const std::string&>();
    const bool matched =
        std::any_of(patterns.patterns.begin(), patterns.patterns.end(),
                    [&](const auto& pattern) { return accepts(pattern.first, text); });
    const bool takes_additional = additional != schema.end() && !matched;
    FORERUN_RETURN_IF_ERROR(
        add(text, takes_additional ? &*additional : nullptr,
            child_of(at, takes_additional ? "additionalProperties" : "required")));
  }
  for (const Json& name : forbidden) {
    FORERUN_RETURN_IF_ERROR(add(name.get<std::string>(), nullptr, at));
  }
  return properties;
}

// Reads members beyond the listed ones; returns nothing if there are none.
Result<std::optional<ExprId>> ObjectReader::read_additional(const Json& schema,
                                                            const std::string& at, int depth,
                                                            const std::vector<std::string>& names,
                                                            const NamePatterns& patterns) {
  if (patterns.none) return std::optional<ExprId>();
  const auto found = schema.find("additionalProperties");
  const bool closed = found == schema.end() &&
                      context_.resolver.reading() == SchemaReading::kIntent &&
                      (schema.contains("properties") || schema.contains("patternProperties"));
  const Json rest = closed ? Json(false) : found == schema.end() ? Json(true) : *found;
  if (!patterns.patterns.empty() || patterns.all) {
    FORERUN_ASSIGN_OR_RETURN(std::vector<ExprId> members,
                             other_members(context_, rest, at, depth, names, patterns));
    if (members.empty()) return std::optional<ExprId>();
    return std::optional(context_.rules.choice(std::move(members)));
  }
  FORERUN_ASSIGN_OR_RETURN(const ExprId value,
                           context_.read(rest, child_of(at, "additionalProperties"), depth + 1));
  if (context_.is_never(value)) return std::optional<ExprId>();
  return std::optional(context_.rules.sequence(
      {other_names(context_, names), context_.rules.literal(":"), context_.json.space(), value}));
}

}  // namespace forerun::grammar
