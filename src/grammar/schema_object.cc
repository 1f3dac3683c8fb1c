// Objects: properties in the schema's order, then others.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/schema_reader.h"

namespace forerun::grammar {
namespace {

// Names written out at each place they may begin; beyond, each property is a rule that is called.
constexpr size_t kMaxInlineNameBytes = 4096;
constexpr uint64_t kMaxCountedStates = 4096;
// Required properties of an object that may have any order, and the states of all such objects.
constexpr size_t kMaxUnordered = 9, kMaxUnorderedStates = 8000;

bool lists(const Json& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<ExprId> SchemaReader::read_object(const Json& schema, const std::string& at, int depth) {
  std::vector<std::string> names;
  FORERUN_ASSIGN_OR_RETURN(const NamePatterns patterns, read_name_patterns(schema, at));
  FORERUN_ASSIGN_OR_RETURN(std::vector<Property> properties,
                           read_properties(schema, at, depth, names, patterns));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<ExprId> additional,
                           read_additional(schema, at, depth, names, patterns));
  size_t required = 0, possible = 0;
  for (const Property& property : properties) {
    if (property.required && !property.possible) return rules_.never();
    required += property.required;
    possible += property.possible;
  }
  FORERUN_ASSIGN_OR_RETURN(PropertyCounts counts,
                           read_property_counts(schema, at, properties, additional.has_value()));
  if (counts.max < std::max<size_t>(required, counts.min)) return rules_.never();
  const bool free = counts.min <= std::max<size_t>(required, 1) &&
                    (counts.max == kUnbounded || (!additional && possible <= counts.max));
  if (!free) return counted_object(properties, additional, counts, at);
  const bool may_be_empty = counts.min == 0;
  const bool plain = names.empty() && additional && may_be_empty;
  if (plain && !schema.contains("additionalProperties") && patterns.patterns.empty() &&
      !patterns.all) {
    return json_.object();
  }
  if (resolver_.reading() == SchemaReading::kLetter && required <= kMaxUnordered &&
      (unordered_states_ += size_t{1} << required) <= kMaxUnorderedStates) {
    return unordered_object(properties, additional, may_be_empty);
  }
  return object_graph(std::move(properties), additional, may_be_empty);
}

Result<std::vector<SchemaReader::Property>> SchemaReader::read_properties(
    const Json& schema, const std::string& at, int depth, std::vector<std::string>& names,
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
  // `own`: what is said of the name itself; patterns that it matches are added.
  const auto add = [&](const std::string& name, const Json* own,
                       const std::string& own_at) -> Status {
    if (!seen.insert(name).second) return {};
    bool possible = !patterns.none && !lists(forbidden, name);
    if (patterns.all && !accepts(*patterns.all, name)) possible = false;
    Json parts = Json::array();
    if (own) parts.push_back(*own);
    for (const auto& [nfa, value] : patterns.patterns) {
      if (accepts(nfa, name)) parts.push_back(value);
    }
    ExprId value = rules_.never();
    if (possible && parts.size() == 1) {
      FORERUN_ASSIGN_OR_RETURN(value, read(parts[0], own_at, depth + 1));
    } else if (possible) {
      FORERUN_ASSIGN_OR_RETURN(
          value, read(parts.empty() ? Json(true) : Json{{"allOf", parts}}, own_at, depth + 1));
    }
    names.push_back(name);
    properties.push_back(
        {json_.member(name, value), lists(required, name), !is_never(value), name.size() + 4});
    return {};
  };
  for (const auto& [name, value] : listed.items()) {
    FORERUN_RETURN_IF_ERROR(add(name, &value, child_of(place, name)));
  }
  // Names in `required` that are not listed take a pattern's schema, or that of additional
  // properties.
  const auto additional = schema.find("additionalProperties");
  for (const Json& name : required) {
    const std::string& text = name.get_ref<const std::string&>();
    const bool matched =
        std::any_of(patterns.patterns.begin(), patterns.patterns.end(),
                    [&](const auto& pattern) { return accepts(pattern.first, text); });
    const bool said = additional != schema.end() && !matched;
    FORERUN_RETURN_IF_ERROR(add(text, said ? &*additional : nullptr,
                                child_of(at, said ? "additionalProperties" : "required")));
  }
  for (const Json& name : forbidden) {
    FORERUN_RETURN_IF_ERROR(add(name.get<std::string>(), nullptr, at));
  }
  return properties;
}

// Members beyond the listed ones; nothing where there are none.
Result<std::optional<ExprId>> SchemaReader::read_additional(const Json& schema,
                                                            const std::string& at, int depth,
                                                            const std::vector<std::string>& names,
                                                            const NamePatterns& patterns) {
  if (patterns.none) return std::optional<ExprId>();
  const auto found = schema.find("additionalProperties");
  const bool closed = found == schema.end() && resolver_.reading() == SchemaReading::kIntent &&
                      (schema.contains("properties") || schema.contains("patternProperties"));
  const Json rest = closed ? Json(false) : found == schema.end() ? Json(true) : *found;
  if (!patterns.patterns.empty() || patterns.all) {
    FORERUN_ASSIGN_OR_RETURN(std::vector<ExprId> members,
                             other_members(rest, at, depth, names, patterns));
    if (members.empty()) return std::optional<ExprId>();
    return std::optional(rules_.choice(std::move(members)));
  }
  FORERUN_ASSIGN_OR_RETURN(const ExprId value,
                           read(rest, child_of(at, "additionalProperties"), depth + 1));
  if (is_never(value)) return std::optional<ExprId>();
  return std::optional(
      rules_.sequence({other_names(names), rules_.literal(":"), json_.space(), value}));
}

Result<SchemaReader::PropertyCounts> SchemaReader::read_property_counts(
    const Json& schema, const std::string& at, const std::vector<Property>& properties, bool open) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> min,
                           count_at(schema, "minProperties", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> max,
                           count_at(schema, "maxProperties", at));
  const auto possible = static_cast<size_t>(
      std::count_if(properties.begin(), properties.end(),
                    [](const Property& property) { return property.possible; }));
  // Names that are not listed may repeat, and a name that repeats is one property.
  if (min && open && *min > possible + 1) {
    return refuse_at(child_of(at, "minProperties"), std::to_string(*min),
                     "1, or no more than there are listed properties and one",
                     StatusCode::kUnsupported);
  }
  if (min && !open && *min > possible) return PropertyCounts{*min, 0};
  return PropertyCounts{min.value_or(0), max.value_or(kUnbounded)};
}

// In state (i, n) the properties up to i are past and n were written, or at least n where there is
// no bound above. Others follow and are counted too; towards the minimum all of them count as one.
Result<ExprId> SchemaReader::counted_object(const std::vector<Property>& properties,
                                            std::optional<ExprId> additional, PropertyCounts counts,
                                            const std::string& at) {
  const auto listed = static_cast<uint32_t>(properties.size());
  const bool bounded = counts.max != kUnbounded;
  const uint64_t top = bounded ? (additional ? counts.max : std::min(counts.max, listed))
                               : std::min(counts.min, listed + 1);
  const uint64_t rows = uint64_t{listed} + 1 + (additional ? 1 + listed : 0);
  if (rows * (top + 1) > kMaxCountedStates) {
    return refuse_at(child_of(at, bounded ? "maxProperties" : "minProperties"),
                     std::to_string(bounded ? counts.max : counts.min),
                     "counts that take up to " + std::to_string(kMaxCountedStates) + " states",
                     StatusCode::kUnsupported);
  }
  const auto max_count = static_cast<uint32_t>(top);
  const auto state = [&](uint32_t i, uint32_t n) { return i * (max_count + 1) + n; };
  const uint32_t end = static_cast<uint32_t>(rows) * (max_count + 1);
  const ExprId gap = json_.gap(), comma = rules_.sequence({rules_.literal(","), gap});
  const ExprId empty = rules_.empty(), brace = rules_.literal("}");
  const ExprId close = rules_.sequence({gap, brace});
  std::vector<GraphEdge> edges;
  const auto write = [&](uint32_t from, uint32_t n, ExprId member, uint32_t to_row, bool first) {
    if (bounded && n == max_count) return;
    edges.push_back({from, rules_.sequence({first ? gap : comma, member}),
                     state(to_row, std::min(n + 1, max_count))});
  };
  // n tells whether none was written, except where it only means "any number".
  if (max_count == 0) {
    return counts.min == 0 ? rules_.literal("{}") : rules_.never();
  }
  for (uint32_t i = 0; i < listed; ++i) {
    const ExprId member = as_rule("property", properties[i].member);
    for (uint32_t n = 0; n <= std::min(i, max_count); ++n) {
      if (!properties[i].required) edges.push_back({state(i, n), empty, state(i + 1, n)});
      if (properties[i].possible) write(state(i, n), n, member, i + 1, n == 0);
    }
  }
  for (uint32_t n = 0; n <= max_count; ++n) {
    const uint32_t past = state(listed, n);
    if (n >= counts.min) edges.push_back({past, n == 0 ? brace : close, end});
    if (!additional || n > listed) continue;
    // Row listed + 1 + n: n listed ones, then others.
    const uint32_t row = listed + 1 + n;
    write(past, n, *additional, row, n == 0);
    for (uint32_t m = n; m <= max_count; ++m) {
      write(state(row, m), m, *additional, row, false);
      if (n + 1 >= counts.min) edges.push_back({state(row, m), close, end});
    }
  }
  return rules_.sequence({rules_.literal("{"), rules_.graph(end + 1, std::move(edges), {end})});
}

// The state has a bit for each required property that was written; one more state stands for an
// object in which nothing was written yet. Names may repeat, as in JSON.
ExprId SchemaReader::unordered_object(const std::vector<Property>& properties,
                                      std::optional<ExprId> additional, bool may_be_empty) {
  std::vector<ExprId> required, others;
  for (const Property& property : properties) {
    if (!property.possible) continue;
    (property.required ? required : others).push_back(property.member);
  }
  if (additional) others.push_back(*additional);
  for (ExprId& member : required) member = as_rule("property", member);
  const uint32_t all = 1u << required.size(), begin = all, end = all + 1;
  const ExprId other = as_rule("properties", rules_.choice(std::move(others)));
  const ExprId gap = json_.gap(), comma = rules_.sequence({rules_.literal(","), gap});
  const ExprId brace = rules_.literal("}");
  // State 0 of a graph is where it begins: it and `begin` change places.
  const auto state = [&](uint32_t s) { return s == begin ? 0 : s == 0 ? begin : s; };
  std::vector<GraphEdge> edges;
  for (uint32_t from = 0; from <= begin; ++from) {
    const uint32_t written = from == begin ? 0 : from;
    const ExprId between = from == begin ? gap : comma;
    if (!is_never(other)) {
      edges.push_back({state(from), rules_.sequence({between, other}), state(written)});
    }
    for (size_t i = 0; i < required.size(); ++i) {
      edges.push_back(
          {state(from), rules_.sequence({between, required[i]}), state(written | 1u << i)});
    }
  }
  if (may_be_empty && all == 1) edges.push_back({0, brace, end});
  edges.push_back({state(all - 1), rules_.sequence({gap, brace}), end});
  return rules_.sequence({rules_.literal("{"), rules_.graph(end + 1, std::move(edges), {end})});
}

// State i: properties up to i are past, none was written. State n + 1 + i: some were. Then the end.
ExprId SchemaReader::object_graph(std::vector<Property> properties,
                                  std::optional<ExprId> additional, bool may_be_empty) {
  const auto count = static_cast<uint32_t>(properties.size());
  const uint32_t end = 2 * count + 2, last = 2 * count + 1;
  size_t names = 0, run = 0;  // bytes of names, each as often as it is written out
  for (const Property& property : properties) {
    run = property.required ? 0 : run + 1;
    names += property.name_bytes * (run + 1);
  }
  const ExprId gap = json_.gap(), comma = rules_.sequence({rules_.literal(","), gap});
  const ExprId empty = rules_.empty();
  std::vector<GraphEdge> edges;
  for (uint32_t i = 0; i < count; ++i) {
    Property& property = properties[i];
    const uint32_t none = i, some = count + 1 + i;
    if (!property.required) {
      edges.push_back({none, empty, none + 1});
      edges.push_back({some, empty, some + 1});
    }
    if (!property.possible) continue;
    if (names > kMaxInlineNameBytes) property.member = as_rule("property", property.member);
    edges.push_back({none, rules_.sequence({gap, property.member}), some + 1});
    edges.push_back({some, rules_.sequence({comma, property.member}), some + 1});
  }
  if (additional) {
    edges.push_back({count, rules_.sequence({gap, *additional}), last});
    edges.push_back({last, rules_.sequence({comma, *additional}), last});
  }
  const ExprId close = rules_.literal("}");
  if (may_be_empty) edges.push_back({count, close, end});
  edges.push_back({last, rules_.sequence({gap, close}), end});
  return rules_.sequence({rules_.literal("{"), rules_.graph(end + 1, std::move(edges), {end})});
}

}  // namespace forerun::grammar
