// Strings and numbers.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/char_nfa.h"
#include "grammar/formats.h"
#include "grammar/number_rules.h"
#include "grammar/pattern.h"
#include "grammar/schema_reader.h"

namespace forerun::grammar {

namespace {

// Beyond, lengths of a pattern's texts are counted instead of having a state for each.
constexpr uint64_t kMaxUnrolled = 400;
// States of a pattern and a length together, where they cannot be counted.
constexpr uint64_t kMaxSizedStates = 4000;
constexpr uint32_t kFewestSizedChars = 256;  // that texts may have where these do not suffice

}  // namespace

Result<ExprId> SchemaReader::read_string(const Json& schema, const std::string& at) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, count_at(schema, "minLength", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(schema, "maxLength", at));
  const uint32_t min = least.value_or(0), max = most.value_or(kUnbounded);
  FORERUN_ASSIGN_OR_RETURN(std::optional<CharNfa> texts, read_texts(schema, at));
  if (!texts) return json_.string_of_length(min, max);
  return quoted_texts(std::move(*texts), min, max,
                      child_of(at, schema.contains("pattern") ? "pattern" : "format"));
}

Result<std::optional<CharNfa>> SchemaReader::read_texts(const Json& schema, const std::string& at) {
  std::vector<CharNfa> nfas;
  uint64_t wanted = 0;  // those that must match; the others must not
  std::string place = at;
  const auto add = [&](const std::string& pattern, bool matches) -> Status {
    Result<CharNfa> nfa = read_pattern(pattern, limits_);
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
  const Result<CharDfa> dfa = read_together(nfas, limits_);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + place);
  return std::optional(texts_where(*dfa, [&](uint64_t marks) { return marks == wanted; }));
}

// Whether a count may stop the texts of `nfa` anywhere: every one that has begun is whole, and
// where there is a least length, every one goes on. Makes `nfa` deterministic if so.
Result<bool> SchemaReader::make_countable(CharNfa& nfa, uint32_t min, const std::string& at) {
  Result<CharDfa> dfa = read_together({&nfa, 1}, limits_);
  if (!dfa.ok()) return dfa.status().with_context("schema: " + at);
  nfa = texts_where(*dfa, [](uint64_t marks) { return marks != 0; });
  for (size_t i = 0; i < nfa.states.size(); ++i) {
    if ((i > 0 && !nfa.states[i].end) || (min > 0 && nfa.states[i].edges.empty())) return false;
  }
  return true;
}

Result<ExprId> SchemaReader::quoted_texts(CharNfa nfa, uint32_t min, uint32_t max,
                                          const std::string& at) {
  const LengthRange lengths = lengths_of(nfa);
  if (lengths.fewest == UINT32_MAX || lengths.fewest > max) return rules_.never();
  if (lengths.fewest >= min) min = 0;
  if (lengths.most <= max) max = kUnbounded;
  const bool bounded = min > 0 || max != kUnbounded;
  const uint64_t longest = max != kUnbounded ? max : min;
  bool counts = bounded && longest * nfa.states.size() > kMaxUnrolled;
  if (counts) {
    FORERUN_ASSIGN_OR_RETURN(counts, make_countable(nfa, min, at));
  }
  if (!counts && max != kUnbounded && longest * nfa.states.size() > kMaxSizedStates) {
    // Texts beyond these are longer than replies are.
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
    Result<CharNfa> sized = with_length(nfa, min, max, limits_.max_states);
    if (!sized.ok()) return sized.status().with_context("schema: " + at);
    nfa = std::move(*sized);
  }
  std::vector<GraphEdge> edges;
  std::vector<uint32_t> ends;
  for (uint32_t from = 0; from < nfa.states.size(); ++from) {
    for (const CharNfa::Edge& edge : nfa.states[from].edges) {
      const ExprId chars =
          many ? json_.string_chars_by_call(edge.chars) : json_.string_chars(edge.chars);
      edges.push_back({from, chars, edge.to});
    }
    if (nfa.states[from].end) ends.push_back(from);
    if (rules_.expr_count() > 4 * limits_.max_expressions) {
      return refuse_at(at,
                       "a pattern whose automaton has more than " +
                           std::to_string(4 * limits_.max_expressions) + " transitions",
                       "one with fewer or smaller repetitions", StatusCode::kResourceExhausted);
    }
  }
  if (ends.empty()) return rules_.never();
  const auto count = static_cast<uint32_t>(nfa.states.size());
  const ExprId quote = rules_.literal("\"");
  const ExprId graph = rules_.graph(count, std::move(edges), std::move(ends));
  if (!counts) return rules_.sequence({quote, graph, quote});
  CountedLoop loop;
  loop.before = loop.after = quote;
  loop.body = graph;
  loop.body_is_graph = true;
  loop.min = min;
  loop.max = max;
  const RuleId rule = rules_.add_rule("pattern of a length");
  rules_.define(rule, loop);
  return rules_.rule(rule);
}

Result<ExprId> SchemaReader::read_number(const Json& schema, const std::string& at, int types) {
  const bool integer = (types & kFractionType) == 0;
  std::optional<NumberBound> least, most;
  for (const bool lower : {true, false}) {
    std::optional<NumberBound>& bound = lower ? least : most;
    for (const bool inclusive : {true, false}) {
      const char* keyword = lower ? (inclusive ? "minimum" : "exclusiveMinimum")
                                  : (inclusive ? "maximum" : "exclusiveMaximum");
      FORERUN_ASSIGN_OR_RETURN(const std::optional<Decimal> value, decimal_at(schema, keyword, at));
      if (!value) continue;
      if (!integer && value->whole.size() > kMaxBoundDigits) {
        // Bounded numbers have fewer digits than this bound, so they lie all on one side of it.
        if (value->negative != lower) return rules_.never();
        if (!bound) bound = NumberBound{*Decimal::parse(lower ? "-1e15" : "1e15"), true};
        continue;
      }
      const int order = bound ? compare(*value, bound->value) : 0;
      const bool replaces = !bound || (lower ? order > 0 : order < 0) || (order == 0 && !inclusive);
      if (replaces) bound = NumberBound{*value, inclusive};
    }
  }
  FORERUN_ASSIGN_OR_RETURN(const std::optional<Decimal> multiple,
                           decimal_at(schema, "multipleOf", at));
  if (multiple && (multiple->negative || multiple->is_zero())) {
    return refuse_at(child_of(at, "multipleOf"), shown(schema.at("multipleOf")), "numbers above 0");
  }
  if ((types & kIntegerType) == 0) {
    if (!least && !most && !multiple) return json_.fraction();
    return refuse_at(at, "bounds of numbers that are no integers", "bounds of numbers or integers",
                     StatusCode::kUnsupported);
  }
  int64_t multiple_of = 1;
  if (multiple) {
    const std::optional<Multiple> step = Multiple::of(*multiple);
    if (!step) {
      return refuse_at(child_of(at, "multipleOf"), shown(schema.at("multipleOf")),
                       "up to 9 digits after the point, and up to " +
                           std::to_string(kLargestMultiple) + " in steps of the last one",
                       StatusCode::kUnsupported);
    }
    if (!integer && step->places > 0) return multiples_between(rules_, least, most, *step);
    multiple_of = step->whole_step();
  }
  if (!integer && !multiple) {
    return least || most ? numbers_between(rules_, least, most) : json_.number();
  }
  int64_t first = -kLargestInteger, last = kLargestInteger;
  if (least) {
    // Replies have no integers beyond this one.
    if (compare(least->value, *Decimal::parse("999999999999999999")) > 0) return rules_.never();
    first = least->inclusive ? least->value.ceil(kLargestInteger)
                             : least->value.floor(kLargestInteger) + 1;
  }
  if (most) {
    if (compare(most->value, *Decimal::parse("-999999999999999999")) < 0) return rules_.never();
    last = most->inclusive ? most->value.floor(kLargestInteger)
                           : most->value.ceil(kLargestInteger) - 1;
    last = std::min(last, kLargestInteger);
  }
  if (most && compare(most->value, *Decimal::parse("999999999999999999")) > 0) {
    last = kLargestInteger;
  }
  if (least && compare(least->value, *Decimal::parse("-999999999999999999")) < 0) {
    first = -kLargestInteger;
  }
  const auto [found, inserted] = integers_.try_emplace({first, last, multiple_of});
  if (inserted) {
    ExprId integers = integers_between(rules_, first, last, multiple_of);
    if (resolver_.reading() == SchemaReading::kLetter && !is_never(integers)) {
      // 6000.0 is an integer by the specification.
      integers = rules_.sequence({integers, rules_.optional(rules_.literal(".0"))});
    }
    found->second = as_rule("integer", integers);
  }
  return found->second;
}

}  // namespace forerun::grammar
