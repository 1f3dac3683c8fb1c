// Strings and numbers.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_nfa.h"
#include "grammar/formats.h"
#include "grammar/number_rules.h"
#include "grammar/pattern.h"
#include "grammar/schema_reader.h"

namespace forerun::grammar {

Result<ExprId> SchemaReader::read_string(const Json& schema, const std::string& at) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, count_at(schema, "minLength", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(schema, "maxLength", at));
  FORERUN_ASSIGN_OR_RETURN(std::optional<std::string> pattern, string_at(schema, "pattern", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<std::string> format,
                           string_at(schema, "format", at));
  const uint32_t min = least.value_or(0), max = most.value_or(kUnbounded);
  std::string place = child_of(at, "pattern");
  if (format) {
    place = child_of(at, "format");
    if (pattern) {
      return refuse_at(place, "\"format\" beside \"pattern\"", "one of them",
                       StatusCode::kUnsupported);
    }
    pattern = pattern_of_format(*format);
    if (!pattern) {
      return refuse_at(place, "\"" + *format + "\"", known_formats(), StatusCode::kUnsupported);
    }
  }
  if (!pattern) return json_.string_of_length(min, max);
  Result<CharNfa> nfa = read_pattern(*pattern, limits_);
  if (nfa.ok() && (min > 0 || max != kUnbounded)) {
    nfa = with_length(*nfa, min, max, limits_.max_states);
  }
  if (!nfa.ok()) return nfa.status().with_context("schema: " + place);
  std::vector<GraphEdge> edges;
  std::vector<uint32_t> ends;
  for (uint32_t from = 0; from < nfa->states.size(); ++from) {
    for (const CharNfa::Edge& edge : nfa->states[from].edges) {
      edges.push_back({from, json_.string_chars(edge.chars), edge.to});
    }
    if (nfa->states[from].end) ends.push_back(from);
    if (rules_.expr_count() > 4 * limits_.max_expressions) {
      return refuse_at(
          place,
          "a pattern with more than " + std::to_string(4 * limits_.max_expressions) + " moves",
          "fewer repetitions", StatusCode::kResourceExhausted);
    }
  }
  if (ends.empty()) return rules_.never();
  const auto count = static_cast<uint32_t>(nfa->states.size());
  const ExprId quote = rules_.literal("\"");
  return rules_.sequence({quote, rules_.graph(count, std::move(edges), std::move(ends)), quote});
}

Result<ExprId> SchemaReader::read_number(const Json& schema, const std::string& at, bool integer) {
  std::optional<NumberBound> least, most;
  for (const bool lower : {true, false}) {
    std::optional<NumberBound>& bound = lower ? least : most;
    for (const bool inclusive : {true, false}) {
      const char* keyword = lower ? (inclusive ? "minimum" : "exclusiveMinimum")
                                  : (inclusive ? "maximum" : "exclusiveMaximum");
      FORERUN_ASSIGN_OR_RETURN(const std::optional<Decimal> value, decimal_at(schema, keyword, at));
      if (!value) continue;
      if (!integer && value->whole.size() > kMostBoundDigits) {
        return refuse_at(child_of(at, keyword), shown(schema.at(keyword)),
                         "bounds of up to 12 digits before the point", StatusCode::kUnsupported);
      }
      const int order = bound ? compare(*value, bound->value) : 0;
      const bool replaces = !bound || (lower ? order > 0 : order < 0) || (order == 0 && !inclusive);
      if (replaces) bound = NumberBound{*value, inclusive};
    }
  }
  FORERUN_ASSIGN_OR_RETURN(const std::optional<Decimal> multiple,
                           decimal_at(schema, "multipleOf", at));
  int64_t multiple_of = 1;
  if (multiple) {
    multiple_of = multiple->floor(kLargestMultiple + 1);
    if (multiple->negative || !multiple->fraction.empty() || multiple_of < 1 ||
        multiple_of > kLargestMultiple) {
      return refuse_at(child_of(at, "multipleOf"), shown(schema.at("multipleOf")),
                       "whole numbers from 1 to " + std::to_string(kLargestMultiple),
                       StatusCode::kUnsupported);
    }
  }
  if (!integer && !multiple) {
    return least || most ? numbers_between(rules_, least, most) : json_.number();
  }
  int64_t first = -kLargestInteger, last = kLargestInteger;
  if (least) {
    // Beyond what is written at all there is nothing.
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
    found->second = as_rule("integer", integers_between(rules_, first, last, multiple_of));
  }
  return found->second;
}

}  // namespace forerun::grammar
