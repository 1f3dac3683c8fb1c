// Arrays: items that are alike, counted, and tuples.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_judge.h"
#include "grammar/schema_reader.h"

namespace forerun::grammar {

Result<ExprId> SchemaReader::read_array(const Json& schema, const std::string& at, int depth) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, count_at(schema, "minItems", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(schema, "maxItems", at));
  const auto unique = schema.find("uniqueItems");
  if (unique != schema.end() && *unique != false && most.value_or(2) > 1) {
    return read_unique(schema, at, least.value_or(0), most.value_or(kUnbounded));
  }
  std::vector<ExprId> first;
  if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
    const std::string place = child_of(at, "prefixItems");
    if (!prefix->is_array()) return refuse_at(place, shown(*prefix), "a list of schemas");
    for (size_t i = 0; i < prefix->size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(const ExprId item,
                               read((*prefix)[i], child_of(place, std::to_string(i)), depth + 1));
      first.push_back(item);
    }
  }
  const uint32_t min = least.value_or(0);
  uint32_t max = most.value_or(kUnbounded);
  std::optional<ExprId> rest;
  if (const auto items = schema.find("items"); items != schema.end()) {
    const std::string place = child_of(at, "items");
    FORERUN_ASSIGN_OR_RETURN(const ExprId item, read(*items, place, depth + 1));
    if (!is_never(item)) rest = item;
  } else if (first.empty() || min > first.size() || resolver_.reading() == SchemaReading::kLetter) {
    rest = json_.value();
  }
  // Nothing can follow an item that no value satisfies.
  for (size_t i = 0; i < first.size(); ++i) {
    if (!is_never(first[i])) continue;
    first.resize(i);
    rest.reset();
  }
  if (!rest) max = std::min(max, static_cast<uint32_t>(first.size()));
  if (min > max) return rules_.never();
  if (max == 0) return rules_.literal("[]");
  if (!first.empty()) return tuple_graph(first, rest, min, max);
  if (min == 0 && max == kUnbounded && !schema.contains("items")) return json_.array();
  return counted_items(as_rule(child_of(at, "items"), *rest), min, max);
}

// Items that differ, where they are a few listed values. State: which of them were written, a bit
// each.
Result<ExprId> SchemaReader::read_unique(const Json& schema, const std::string& at, uint32_t min,
                                         uint32_t max) {
  constexpr size_t kMaxValues = 8;
  Json values;
  if (const auto items = schema.find("items");
      items != schema.end() && !schema.contains("prefixItems")) {
    FORERUN_ASSIGN_OR_RETURN(const Json item, resolver_.flattened(*items, child_of(at, "items")));
    bool all_fit = item.is_object() && item.contains("enum") && item.at("enum").is_array();
    for (size_t i = 0; all_fit && i < item.at("enum").size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(const Verdict fits,
                               judge(resolver_, item, item.at("enum")[i], child_of(at, "items")));
      all_fit = fits == Verdict::kYes;
    }
    if (all_fit) values = item.at("enum");
  }
  if (!values.is_array() || values.size() > kMaxValues) {
    return refuse_at(child_of(at, "uniqueItems"), "true",
                     "true where maxItems is 1 or items are an enum of up to " +
                         std::to_string(kMaxValues) + " values",
                     StatusCode::kUnsupported);
  }
  const uint32_t end = 1u << values.size();
  const ExprId gap = json_.gap(), comma = rules_.sequence({rules_.literal(","), gap});
  const ExprId close = rules_.sequence({gap, rules_.literal("]")});
  std::vector<ExprId> items;
  for (const Json& value : values) items.push_back(fixed_value(value));
  std::vector<GraphEdge> edges;
  for (uint32_t written = 0; written < end; ++written) {
    const auto count = static_cast<uint32_t>(std::popcount(written));
    if (count >= min && count <= max) {
      edges.push_back({written, written == 0 ? rules_.literal("]") : close, end});
    }
    for (size_t i = 0; i < items.size() && count < max; ++i) {
      if ((written >> i) & 1) continue;
      edges.push_back(
          {written, rules_.sequence({written == 0 ? gap : comma, items[i]}), written | 1u << i});
    }
  }
  return rules_.sequence({rules_.literal("["), rules_.graph(end + 1, std::move(edges), {end})});
}

// `item` must be a call of a shared rule.
ExprId SchemaReader::counted_items(ExprId item, uint32_t min, uint32_t max) {
  const ExprId gap = json_.gap();
  CountedLoop loop;
  loop.before = rules_.sequence({rules_.literal("["), gap, item});
  loop.body = rules_.sequence({rules_.literal(","), gap, item});
  loop.after = rules_.sequence({gap, rules_.literal("]")});
  loop.initial = 1;
  loop.min = std::max(min, 1u);
  loop.max = max;
  const RuleId rule = rules_.add_rule("items");
  rules_.define(rule, loop);
  if (min > 0) return rules_.rule(rule);
  return rules_.choice({rules_.literal("[]"), rules_.rule(rule)});
}

// State i: i items were written; the last but one state is in the rest.
ExprId SchemaReader::tuple_graph(const std::vector<ExprId>& first, std::optional<ExprId> rest,
                                 uint32_t min, uint32_t max) {
  const auto count = std::min(static_cast<uint32_t>(first.size()), max);
  const uint32_t more = count + 1, end = count + 2;
  const ExprId gap = json_.gap(), comma = rules_.sequence({rules_.literal(","), gap});
  const ExprId close = rules_.sequence({gap, rules_.literal("]")});
  std::vector<GraphEdge> edges;
  for (uint32_t i = 0; i < count; ++i) {
    edges.push_back({i, rules_.sequence({i == 0 ? gap : comma, first[i]}), i + 1});
    if (i >= min) edges.push_back({i, i == 0 ? rules_.literal("]") : close, end});
  }
  const uint32_t rest_min = min > count ? min - count : 0;
  const uint32_t rest_max = max == kUnbounded ? kUnbounded : max - count;
  if (!rest || rest_max == 0) {
    edges.push_back({count, close, end});
  } else {
    const ExprId item = rules_.sequence({comma, as_rule("items", *rest)});
    edges.push_back({count, rules_.repeat(item, rest_min, rest_max), more});
    edges.push_back({more, close, end});
  }
  return rules_.sequence({rules_.literal("["), rules_.graph(end + 1, std::move(edges), {end})});
}

}  // namespace forerun::grammar
