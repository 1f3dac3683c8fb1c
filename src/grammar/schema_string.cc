#include "grammar/schema_string.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/formats.h"
#include "grammar/pattern.h"

namespace forerun::grammar {

namespace {

// Above it, lengths of a pattern's texts are counted instead of having a state for each.
constexpr uint64_t kMaxUnrolled = 400;
// Maximum states of a pattern combined with a length, if they cannot be counted.
constexpr uint64_t kMaxSizedStates = 4000;
// Number of characters that texts must be allowed to have in that case.
constexpr uint32_t kFewestSizedChars = 256;

// Returns whether a count may end the texts of `nfa` anywhere: every non-empty prefix is a whole
// text, and if there is a minimum length, every text continues. Makes `nfa` deterministic if so.
Result<bool> make_countable(const GrammarLimits& limits, CharNfa& nfa, uint32_t min,
                            const std::string& at) {
  Result<CharDfa> dfa = read_together({&nfa, 1}, limits);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + at);
  nfa = texts_where(*dfa, [](uint64_t marks) { return marks != 0; });
  for (size_t i = 0; i < nfa.states.size(); ++i) {
    if ((i > 0 && !nfa.states[i].end) || (min > 0 && nfa.states[i].edges.empty())) return false;
  }
  return true;
}

}  // namespace

Result<ExprId> read_string(SchemaContext& context, const Json& schema, const std::string& at) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, count_at(schema, "minLength", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(schema, "maxLength", at));
  const uint32_t min = least.value_or(0), max = most.value_or(kUnbounded);
  FORERUN_ASSIGN_OR_RETURN(std::optional<CharNfa> texts, read_texts(context, schema, at));
  if (!texts) return context.json.string_of_length(min, max);
  return quoted_texts(context, std::move(*texts), min, max,
                      child_of(at, schema.contains("pattern") ? "pattern" : "format"));
}

Result<std::optional<CharNfa>> read_texts(SchemaContext& context, const Json& schema,
                                          const std::string& at) {
  std::vector<CharNfa> nfas;
  uint64_t wanted = 0;  // texts that must match; the others must not
  std::string place = at;
  const auto add = [&](const std::string& pattern, bool matches) -> Status {
    Result<CharNfa> nfa = read_pattern(pattern, context.limits);
    if (!nfa.ok()) return nfa.status().with_context("schema: " + place);
    if (matches) wanted |= uint64_t{1} << nfas.size();
    nfas.push_back(std::move(*nfa));
    return {};
  };
  const auto add_all = [&](const Json& of, const std::string& of_at) -> Status {
    for (const char* keyword : {"pattern", "notPattern", "format"}) {
      if (keyword[0] == 'n' && &of == &schema) continue;  // only kTexts has it
      FORERUN_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                               string_at(of, keyword, of_at));
      if (!text) continue;
      place = child_of(of_at, keyword[0] == 'n' ? "not/pattern" : keyword);
      const bool format = keyword[0] == 'f';
      const std::optional<std::string> pattern = format ? pattern_of_format(*text) : text;
      if (pattern) FORERUN_RETURN_IF_ERROR(add(*pattern, keyword[0] != 'n'));
    }
    return {};
  };
  FORERUN_RETURN_IF_ERROR(add_all(schema, at));
  if (const auto more = schema.find(kTexts); more != schema.end()) {
    for (const Json& part : *more) FORERUN_RETURN_IF_ERROR(add_all(part, at));
  }
  std::vector<std::string> excluded;
  if (const auto values = schema.find(kExcluded); values != schema.end()) {
    for (const Json& value : *values) {
      if (value.is_string()) excluded.push_back(value.get<std::string>());
    }
  }
  if (!excluded.empty()) nfas.push_back(literal_texts(excluded));
  if (nfas.empty()) return std::optional<CharNfa>();
  if (nfas.size() == 1 && wanted == 1) return std::optional(std::move(nfas[0]));
  if (nfas.size() > 32) {
    return refuse_at(at, std::to_string(nfas.size()) + " patterns that hold together", "up to 32",
                     StatusCode::kUnsupported);
  }
  const Result<CharDfa> dfa = read_together(nfas, context.limits);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + place);
  return std::optional(texts_where(*dfa, [&](uint64_t marks) { return marks == wanted; }));
}

Result<ExprId> quoted_texts(SchemaContext& context, CharNfa nfa, uint32_t min, uint32_t max,
                            const std::string& at) {
  const LengthRange lengths = lengths_of(nfa);
  if (lengths.fewest == UINT32_MAX || lengths.fewest > max) return context.rules.never();
  if (lengths.fewest >= min) min = 0;
  if (lengths.most <= max) max = kUnbounded;
  const bool bounded = min > 0 || max != kUnbounded;
  const uint64_t longest = max != kUnbounded ? max : min;
  bool counts = bounded && longest * nfa.states.size() > kMaxUnrolled;
  if (counts) {
    FORERUN_ASSIGN_OR_RETURN(counts, make_countable(context.limits, nfa, min, at));
  }
  if (!counts && max != kUnbounded && longest * nfa.states.size() > kMaxSizedStates) {
    // Texts above this length are longer than replies.
    const auto max_chars = static_cast<uint32_t>(kMaxSizedStates / nfa.states.size());
    if (max_chars < min || max_chars < kFewestSizedChars) {
      return refuse_at(at, "a pattern with these lengths",
                       "one that takes up to " + std::to_string(kMaxSizedStates) + " states",
                       StatusCode::kResourceExhausted);
    }
    max = max_chars;
  }
  const bool many = !counts && longest * nfa.states.size() > kMaxUnrolled;
  if (bounded && !counts) {
    Result<CharNfa> sized = with_length(nfa, min, max, context.limits.max_states);
    if (!sized.ok()) return sized.status().with_context("schema: " + at);
    nfa = std::move(*sized);
  }
  std::vector<GraphEdge> edges;
  std::vector<uint32_t> ends;
  for (uint32_t from = 0; from < nfa.states.size(); ++from) {
    for (const CharNfa::Edge& edge : nfa.states[from].edges) {
      const ExprId chars = many ? context.json.string_chars_by_call(edge.chars)
                                : context.json.string_chars(edge.chars);
      edges.push_back({from, chars, edge.to});
    }
    if (nfa.states[from].end) ends.push_back(from);
    if (context.rules.expr_count() > 4 * context.limits.max_expressions) {
      return refuse_at(at,
                       "a pattern whose automaton has more than " +
                           std::to_string(4 * context.limits.max_expressions) + " transitions",
                       "one with fewer or smaller repetitions", StatusCode::kResourceExhausted);
    }
  }
  if (ends.empty()) return context.rules.never();
  const auto count = static_cast<uint32_t>(nfa.states.size());
  const ExprId quote = context.rules.literal("\"");
  const ExprId graph = context.rules.graph(count, std::move(edges), std::move(ends));
  if (!counts) return context.rules.sequence({quote, graph, quote});
  CountedLoop loop;
  loop.before = loop.after = quote;
  loop.body = graph;
  loop.body_is_graph = true;
  loop.min = min;
  loop.max = max;
  const RuleId rule = context.rules.add_rule("pattern of a length");
  context.rules.define(rule, loop);
  return context.rules.rule(rule);
}

}  // namespace forerun::grammar
