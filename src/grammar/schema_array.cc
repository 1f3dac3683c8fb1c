#include "grammar/schema_array.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/schema_judge.h"
#include "grammar/schema_values.h"

namespace forerun::grammar {
namespace {

// Reads distinct items from a few listed values. The state has a bit for each value that was
// written.
Result<ExprId> read_unique(SchemaContext& context, const Json& schema, const std::string& at,
                           uint32_t min, uint32_t max) {
  constexpr size_t kMaxValues = 8;
  Json values;
  if (const auto items = schema.find("items");
      items != schema.end() && !schema.contains("prefixItems")) {
    FORERUN_ASSIGN_OR_RETURN(const Json item,
                             context.resolver.flattened(*items, child_of(at, "items")));
    bool all_fit = item.is_object() && item.contains("enum") && item.at("enum").is_array();
    for (size_t i = 0; all_fit && i < item.at("enum").size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(const Verdict fits, judge(context.resolver, item, item.at("enum")[i],
                                                         child_of(at, "items")));
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
  const ExprId gap = context.json.gap(),
               comma = context.rules.sequence({context.rules.literal(","), gap});
  const ExprId close = context.rules.sequence({gap, context.rules.literal("]")});
  std::vector<ExprId> items;
  for (const Json& value : values) items.push_back(fixed_value(context, value));
  std::vector<GraphEdge> edges;
  for (uint32_t written = 0; written < end; ++written) {
    const auto count = static_cast<uint32_t>(std::popcount(written));
    if (count >= min && count <= max) {
      edges.push_back({written, written == 0 ? context.rules.literal("]") : close, end});
    }
    for (size_t i = 0; i < items.size() && count < max; ++i) {
      if ((written >> i) & 1) continue;
      edges.push_back({written, context.rules.sequence({written == 0 ? gap : comma, items[i]}),
                       written | 1u << i});
    }
  }
  return context.rules.sequence(
      {context.rules.literal("["), context.rules.graph(end + 1, std::move(edges), {end})});
}

// `item` must be a call of a shared rule.
ExprId counted_items(SchemaContext& context, ExprId item, uint32_t min, uint32_t max) {
  const ExprId gap = context.json.gap();
  CountedLoop loop;
  loop.before = context.rules.sequence({context.rules.literal("["), gap, item});
  loop.body = context.rules.sequence({context.rules.literal(","), gap, item});
  loop.after = context.rules.sequence({gap, context.rules.literal("]")});
  loop.initial = 1;
  loop.min = std::max(min, 1u);
  loop.max = max;
  const RuleId rule = context.rules.add_rule("items");
  context.rules.define(rule, loop);
  if (min > 0) return context.rules.rule(rule);
  return context.rules.choice({context.rules.literal("[]"), context.rules.rule(rule)});
}

// State i: i items were written; the last but one state is in the rest.
ExprId tuple_graph(SchemaContext& context, const std::vector<ExprId>& first,
                   std::optional<ExprId> rest, uint32_t min, uint32_t max) {
  const auto count = std::min(static_cast<uint32_t>(first.size()), max);
  const uint32_t more = count + 1, end = count + 2;
  const ExprId gap = context.json.gap(),
               comma = context.rules.sequence({context.rules.literal(","), gap});
  const ExprId close = context.rules.sequence({gap, context.rules.literal("]")});
  std::vector<GraphEdge> edges;
  for (uint32_t i = 0; i < count; ++i) {
    edges.push_back({i, context.rules.sequence({i == 0 ? gap : comma, first[i]}), i + 1});
    if (i >= min) edges.push_back({i, i == 0 ? context.rules.literal("]") : close, end});
  }
  const uint32_t rest_min = min > count ? min - count : 0;
  const uint32_t rest_max = max == kUnbounded ? kUnbounded : max - count;
  if (!rest || rest_max == 0) {
    edges.push_back({count, close, end});
  } else {
    const ExprId item = context.rules.sequence({comma, context.as_rule("items", *rest)});
    edges.push_back({count, context.rules.repeat(item, rest_min, rest_max), more});
    edges.push_back({more, close, end});
  }
  return context.rules.sequence(
      {context.rules.literal("["), context.rules.graph(end + 1, std::move(edges), {end})});
}

}  // namespace

Result<ExprId> read_array(SchemaContext& context, const Json& schema, const std::string& at,
                          int depth) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> least, count_at(schema, "minItems", at));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> most, count_at(schema, "maxItems", at));
  const auto unique = schema.find("uniqueItems");
  if (unique != schema.end() && *unique != false && most.value_or(2) > 1) {
    return read_unique(context, schema, at, least.value_or(0), most.value_or(kUnbounded));
  }
  std::vector<ExprId> first;
  if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
    const std::string place = child_of(at, "prefixItems");
    if (!prefix->is_array()) return refuse_at(place, shown(*prefix), "a list of schemas");
    for (size_t i = 0; i < prefix->size(); ++i) {
      FORERUN_ASSIGN_OR_RETURN(
          const ExprId item,
          context.read((*prefix)[i], child_of(place, std::to_string(i)), depth + 1));
      first.push_back(item);
    }
  }
  const uint32_t min = least.value_or(0);
  uint32_t max = most.value_or(kUnbounded);
  std::optional<ExprId> rest;
  if (const auto items = schema.find("items"); items != schema.end()) {
    const std::string place = child_of(at, "items");
    FORERUN_ASSIGN_OR_RETURN(const ExprId item, context.read(*items, place, depth + 1));
    if (!context.is_never(item)) rest = item;
  } else if (first.empty() || min > first.size() ||
             context.resolver.reading() == SchemaReading::kLetter) {
    rest = context.json.value();
  }
  // No item can follow an item that no value satisfies.
  for (size_t i = 0; i < first.size(); ++i) {
    if (!context.is_never(first[i])) continue;
    first.resize(i);
    rest.reset();
  }
  if (!rest) max = std::min(max, static_cast<uint32_t>(first.size()));
  if (min > max) return context.rules.never();
  if (max == 0) return context.rules.literal("[]");
  if (!first.empty()) return tuple_graph(context, first, rest, min, max);
  if (min == 0 && max == kUnbounded && !schema.contains("items")) return context.json.array();
  return counted_items(context, context.as_rule(child_of(at, "items"), *rest), min, max);
}

}  // namespace forerun::grammar
