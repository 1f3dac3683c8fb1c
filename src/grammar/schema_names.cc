#include "grammar/schema_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/pattern.h"
#include "grammar/schema_string.h"
#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr size_t kMaxPatterns = 40;  // patterns of names in one object

}  // namespace

Result<NamePatterns> read_name_patterns(SchemaContext& context, const Json& schema,
                                        const std::string& at) {
  NamePatterns result;
  if (const auto found = schema.find("patternProperties"); found != schema.end()) {
    const std::string place = child_of(at, "patternProperties");
    if (!found->is_object()) return refuse_at(place, shown(*found), "an object of schemas");
    for (const auto& [pattern, value] : found->items()) {
      Result<CharNfa> nfa = read_pattern(pattern, context.limits);
      if (!nfa.ok()) return nfa.status().with_context("schema: " + child_of(place, pattern));
      result.patterns.emplace_back(std::move(*nfa), value);
    }
    if (result.patterns.size() > kMaxPatterns) {
      return refuse_at(place, std::to_string(result.patterns.size()) + " patterns",
                       "up to " + std::to_string(kMaxPatterns), StatusCode::kUnsupported);
    }
  }
  const auto found = schema.find("propertyNames");
  if (found == schema.end()) return result;
  const std::string place = child_of(at, "propertyNames");
  FORERUN_ASSIGN_OR_RETURN(const Json names, context.resolver.flattened(*found, place));
  if (names.is_boolean()) {
    result.none = names == false;
    return result;
  }
  FORERUN_RETURN_IF_ERROR(check_keywords(names, place));
  FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(names, place));
  if ((types & kStringType) == 0) {
    result.none = true;
    return result;
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!names.contains(keyword)) continue;
    return refuse_at(child_of(place, keyword), "alternatives under propertyNames",
                     "pattern, format, enum, const and lengths", StatusCode::kUnsupported);
  }
  std::vector<CharNfa> all;
  if (names.contains("enum") || names.contains("const")) {
    const Json values = names.contains("const") ? Json::array({names.at("const")}) : names["enum"];
    std::vector<std::string> texts;
    for (const Json& value : values) {
      if (value.is_string()) texts.push_back(value.get<std::string>());
    }
    all.push_back(literal_texts(texts));
  }
  FORERUN_ASSIGN_OR_RETURN(std::optional<CharNfa> texts, read_texts(context, names, place));
  if (texts) all.push_back(std::move(*texts));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least,
                           count_at(names, "minLength", place));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(names, "maxLength", place));
  if (least || most) {
    CharNfa any;
    any.states.push_back({{{CodePointSet::all(), 0}}, true});
    Result<CharNfa> sized = with_length(any, least.value_or(0), most.value_or(kUnbounded), 10'000);
    if (!sized.ok()) return sized.status().with_context("schema: " + place);
    all.push_back(std::move(*sized));
  }
  if (all.empty()) return result;
  Result<CharDfa> dfa = read_together(all, context.limits);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + place);
  const uint64_t wanted = (uint64_t{1} << all.size()) - 1;
  result.all = texts_where(*dfa, [&](uint64_t marks) { return marks == wanted; });
  result.none = result.all->states.empty();
  return result;
}

Result<std::vector<ExprId>> other_members(SchemaContext& context, const Json& additional,
                                          const std::string& at, int depth,
                                          const std::vector<std::string>& names,
                                          const NamePatterns& patterns) {
  const size_t count = patterns.patterns.size();
  std::vector<CharNfa> nfas;
  for (const auto& [nfa, value] : patterns.patterns) nfas.push_back(nfa);
  nfas.push_back(literal_texts(names));
  if (patterns.all) nfas.push_back(*patterns.all);
  const std::string place = child_of(at, count > 0 ? "patternProperties" : "propertyNames");
  Result<CharDfa> dfa = read_together(nfas, context.limits);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + place);
  std::set<uint64_t> kinds;
  for (const CharDfa::State& state : dfa->states) kinds.insert(state.marks);
  const uint64_t listed = uint64_t{1} << count, allowed = patterns.all ? listed << 1 : 0;
  std::vector<ExprId> members;
  for (const uint64_t kind : kinds) {
    if ((kind & listed) != 0 || (kind & allowed) != allowed) continue;
    Json parts = Json::array();
    for (size_t i = 0; i < count; ++i) {
      if ((kind >> i) & 1) parts.push_back(patterns.patterns[i].second);
    }
    const bool matches = !parts.empty();
    const Json schema = !matches            ? additional
                        : parts.size() == 1 ? parts[0]
                                            : Json{{"allOf", parts}};
    FORERUN_ASSIGN_OR_RETURN(
        const ExprId value,
        context.read(schema, matches ? place : child_of(at, "additionalProperties"), depth + 1));
    if (context.is_never(value)) continue;
    FORERUN_ASSIGN_OR_RETURN(
        const ExprId name,
        quoted_texts(context, texts_where(*dfa, [&](uint64_t marks) { return marks == kind; }), 0,
                     kUnbounded, place));
    if (context.is_never(name)) continue;
    members.push_back(context.rules.sequence(
        {context.as_rule("names", name), context.rules.literal(":"), context.json.space(), value}));
  }
  return members;
}

ExprId other_names(SchemaContext& context, const std::vector<std::string>& names) {
  if (names.empty()) return context.json.string();
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
  // There is one state per letter, one for texts that differ from all names, and one after a
  // backslash that begins such a text: escapes are many moves, so letters share that state.
  const auto outside = static_cast<uint32_t>(letters.size()), escape = outside + 1;
  const ExprId backslash = context.rules.literal("\\");
  std::vector<GraphEdge> edges = {
      {outside, context.json.string_chars(CodePointSet::all()), outside},
      {escape, context.json.escape_tails(), outside}};
  std::vector<uint32_t> ends = {outside};
  for (uint32_t at = 0; at < letters.size(); ++at) {
    CodePointSet others = CodePointSet::all();
    for (const auto& [c, next] : letters[at].next) {
      const CodePointSet letter(c, c);
      others = others.minus(letter);
      edges.push_back({at, context.json.string_chars(letter), static_cast<uint32_t>(next)});
    }
    if (others.intersection(JsonRules::escaped_chars()) == JsonRules::escaped_chars()) {
      edges.push_back({at, backslash, escape});
      others = others.minus(JsonRules::escaped_chars());
    }
    edges.push_back({at, context.json.string_chars(others), outside});
    if (!letters[at].ends_name) ends.push_back(at);
  }
  const ExprId quote = context.rules.literal("\"");
  const ExprId name = context.rules.graph(escape + 1, std::move(edges), std::move(ends));
  return context.as_rule("other names", context.rules.sequence({quote, name, quote}));
}

}  // namespace forerun::grammar
