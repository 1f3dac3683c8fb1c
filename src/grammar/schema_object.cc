// Objects: properties in the schema's order, then others.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_reader.h"
#include "text/utf8.h"

namespace forerun::grammar {
namespace {

// Names written out at each place they may begin; beyond, each property is a rule that is called.
constexpr size_t kMostInlineNameBytes = 4096;

bool lists(const Json& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<ExprId> SchemaReader::read_object(const Json& schema, const std::string& at, int depth) {
  std::vector<std::string> names;
  FORERUN_ASSIGN_OR_RETURN(std::vector<Property> properties,
                           read_properties(schema, at, depth, names));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<ExprId> additional,
                           read_additional(schema, at, depth, names));
  for (size_t i = 0; i < properties.size(); ++i) {
    if (properties[i].required && !properties[i].possible) return rules_.never();
  }
  bool may_be_empty = true;
  FORERUN_RETURN_IF_ERROR(
      check_property_counts(schema, at, properties, additional.has_value(), may_be_empty));
  const bool plain = names.empty() && additional && may_be_empty;
  if (plain && !schema.contains("additionalProperties")) return json_.object();
  return object_graph(std::move(properties), additional, may_be_empty);
}

Result<std::vector<SchemaReader::Property>> SchemaReader::read_properties(
    const Json& schema, const std::string& at, int depth, std::vector<std::string>& names) {
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
  std::vector<Property> properties;
  const auto add = [&](const std::string& name, ExprId value, bool is_required) {
    names.push_back(name);
    properties.push_back(
        {json_.member(name, value), is_required, !is_never(value), name.size() + 4});
  };
  for (const auto& [name, value] : listed.items()) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read(value, child_of(place, name), depth + 1));
    add(name, expr, lists(required, name));
  }
  // Names that are demanded but not listed have the schema of additional ones.
  for (const Json& name : required) {
    const std::string& text = name.get_ref<const std::string&>();
    if (std::find(names.begin(), names.end(), text) != names.end()) continue;
    const auto additional = schema.find("additionalProperties");
    if (additional == schema.end()) {
      add(text, json_.value(), true);
      continue;
    }
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr,
                             read(*additional, child_of(at, "additionalProperties"), depth + 1));
    add(text, expr, true);
  }
  return properties;
}

// Members beyond the listed ones; nothing where there are none.
Result<std::optional<ExprId>> SchemaReader::read_additional(const Json& schema,
                                                            const std::string& at, int depth,
                                                            const std::vector<std::string>& names) {
  const auto found = schema.find("additionalProperties");
  if (found == schema.end() && schema.contains("properties")) return std::optional<ExprId>();
  const Json any(true);
  FORERUN_ASSIGN_OR_RETURN(
      const ExprId value,
      read(found == schema.end() ? any : *found, child_of(at, "additionalProperties"), depth + 1));
  if (is_never(value)) return std::optional<ExprId>();
  return std::optional(
      rules_.sequence({other_names(names), rules_.literal(":"), json_.space(), value}));
}

// A name in quotes that is none of `names`. With `names` it has one spelling, since an escaped
// spelling of a listed name would be that name.
ExprId SchemaReader::other_names(const std::vector<std::string>& names) {
  if (names.empty()) return json_.string();
  struct Letter {
    std::map<uint32_t, size_t> next;
    bool ends_name = false;
  };
  std::vector<Letter> letters(1);
  for (std::string_view name : names) {
    size_t at = 0;
    while (!name.empty()) {
      const text::CodePoint c = text::first_code_point(name);
      name.remove_prefix(c.len_bytes);
      const auto [found, inserted] = letters[at].next.try_emplace(c.value, letters.size());
      at = found->second;
      if (inserted) letters.emplace_back();
    }
    letters[at].ends_name = true;
  }
  // One state a letter, one for what has left all names, and one behind a backslash that leaves
  // them: escapes are many moves, so letters share them.
  const auto outside = static_cast<uint32_t>(letters.size()), escape = outside + 1;
  const ExprId backslash = rules_.literal("\\");
  std::vector<GraphEdge> edges = {{outside, json_.string_chars(CodePointSet::all()), outside},
                                  {escape, json_.escape_tails(), outside}};
  std::vector<uint32_t> ends = {outside};
  for (uint32_t at = 0; at < letters.size(); ++at) {
    CodePointSet others = CodePointSet::all();
    for (const auto& [c, next] : letters[at].next) {
      const CodePointSet letter(c, c);
      others = others.minus(letter);
      edges.push_back({at, json_.string_chars(letter), static_cast<uint32_t>(next)});
    }
    if (others.intersection(JsonRules::escaped_chars()) == JsonRules::escaped_chars()) {
      edges.push_back({at, backslash, escape});
      others = others.minus(JsonRules::escaped_chars());
    }
    edges.push_back({at, json_.string_chars(others), outside});
    if (!letters[at].ends_name) ends.push_back(at);
  }
  const ExprId quote = rules_.literal("\"");
  const ExprId name = rules_.graph(escape + 1, std::move(edges), std::move(ends));
  return as_rule("other names", rules_.sequence({quote, name, quote}));
}

Status SchemaReader::check_property_counts(const Json& schema, const std::string& at,
                                           const std::vector<Property>& properties, bool open,
                                           bool& may_be_empty) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> min,
                           count_at(schema, "minProperties", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> max,
                           count_at(schema, "maxProperties", at));
  const auto required = static_cast<size_t>(
      std::count_if(properties.begin(), properties.end(),
                    [](const Property& property) { return property.required; }));
  if (min && *min > std::max<size_t>(required, 1)) {
    return refuse_at(child_of(at, "minProperties"), std::to_string(*min),
                     "1, or no more than there are required properties", StatusCode::kUnsupported);
  }
  may_be_empty = !min || *min == 0;
  if (max && (open || *max < properties.size())) {
    return refuse_at(child_of(at, "maxProperties"), std::to_string(*max),
                     "no fewer than there are properties, and additionalProperties: false",
                     StatusCode::kUnsupported);
  }
  return {};
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
    if (names > kMostInlineNameBytes) property.member = as_rule("property", property.member);
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
