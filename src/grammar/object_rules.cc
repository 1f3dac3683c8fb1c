#include "grammar/object_rules.h"

#include <algorithm>
#include <utility>

namespace forerun::grammar {
namespace {

// Largest number of name bytes that are copied to each place where a name may begin; above it, each
// property is a rule that is called.
constexpr size_t kMaxInlineNameBytes = 4096;
constexpr uint64_t kMaxCountedStates = 4096;

}  // namespace

// In state (i, n) the properties up to i are past and n of them were written, or at least n if
// there is no upper bound. Additional properties follow and are counted too; towards the minimum
// all of them count as one.
Result<ExprId> counted_object(SchemaContext& context, const std::vector<Property>& properties,
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
  const ExprId gap = context.json.gap(),
               comma = context.rules.sequence({context.rules.literal(","), gap});
  const ExprId empty = context.rules.empty(), brace = context.rules.literal("}");
  const ExprId close = context.rules.sequence({gap, brace});
  std::vector<GraphEdge> edges;
  const auto write = [&](uint32_t from, uint32_t n, ExprId member, uint32_t to_row, bool first) {
    if (bounded && n == max_count) return;
    edges.push_back({from, context.rules.sequence({first ? gap : comma, member}),
                     state(to_row, std::min(n + 1, max_count))});
  };
  // n shows whether none was written, except if it only means "any number".
  if (max_count == 0) {
    return counts.min == 0 ? context.rules.literal("{}") : context.rules.never();
  }
  for (uint32_t i = 0; i < listed; ++i) {
    const ExprId member = context.as_rule("property", properties[i].member);
    for (uint32_t n = 0; n <= std::min(i, max_count); ++n) {
      if (!properties[i].required) edges.push_back({state(i, n), empty, state(i + 1, n)});
      if (properties[i].possible) write(state(i, n), n, member, i + 1, n == 0);
    }
  }
  for (uint32_t n = 0; n <= max_count; ++n) {
    const uint32_t past = state(listed, n);
    if (n >= counts.min) edges.push_back({past, n == 0 ? brace : close, end});
    if (!additional || n > listed) continue;
    // Row listed + 1 + n: n listed properties, then additional ones.
    const uint32_t row = listed + 1 + n;
    write(past, n, *additional, row, n == 0);
    for (uint32_t m = n; m <= max_count; ++m) {
      write(state(row, m), m, *additional, row, false);
      if (n + 1 >= counts.min) edges.push_back({state(row, m), close, end});
    }
  }
  return context.rules.sequence(
      {context.rules.literal("{"), context.rules.graph(end + 1, std::move(edges), {end})});
}

// The state has a bit for each required property that was written; one more state represents an
// object in which nothing was written yet. Names may repeat, as in JSON.
ExprId unordered_object(SchemaContext& context, const std::vector<Property>& properties,
                        std::optional<ExprId> additional, bool may_be_empty) {
  std::vector<ExprId> required, others;
  for (const Property& property : properties) {
    if (!property.possible) continue;
    (property.required ? required : others).push_back(property.member);
  }
  if (additional) others.push_back(*additional);
  for (ExprId& member : required) member = context.as_rule("property", member);
  const uint32_t all = 1u << required.size(), begin = all, end = all + 1;
  const ExprId other = context.as_rule("properties", context.rules.choice(std::move(others)));
  const ExprId gap = context.json.gap(),
               comma = context.rules.sequence({context.rules.literal(","), gap});
  const ExprId brace = context.rules.literal("}");
  // State 0 of a graph is its start: it and `begin` are exchanged.
  const auto state = [&](uint32_t s) { return s == begin ? 0 : s == 0 ? begin : s; };
  std::vector<GraphEdge> edges;
  for (uint32_t from = 0; from <= begin; ++from) {
    const uint32_t written = from == begin ? 0 : from;
    const ExprId between = from == begin ? gap : comma;
    if (!context.is_never(other)) {
      edges.push_back({state(from), context.rules.sequence({between, other}), state(written)});
    }
    for (size_t i = 0; i < required.size(); ++i) {
      edges.push_back(
          {state(from), context.rules.sequence({between, required[i]}), state(written | 1u << i)});
    }
  }
  if (may_be_empty && all == 1) edges.push_back({0, brace, end});
  edges.push_back({state(all - 1), context.rules.sequence({gap, brace}), end});
  return context.rules.sequence(
      {context.rules.literal("{"), context.rules.graph(end + 1, std::move(edges), {end})});
}

// State i: properties up to i are past, none was written. State n + 1 + i: some were written. The
// last state is the end.
ExprId ordered_object(SchemaContext& context, std::vector<Property> properties,
                      std::optional<ExprId> additional, bool may_be_empty) {
  const auto count = static_cast<uint32_t>(properties.size());
  const uint32_t end = 2 * count + 2, last = 2 * count + 1;
  size_t names = 0, run = 0;  // bytes of names, counted for each copy
  for (const Property& property : properties) {
    run = property.required ? 0 : run + 1;
    names += property.name_bytes * (run + 1);
  }
  const ExprId gap = context.json.gap(),
               comma = context.rules.sequence({context.rules.literal(","), gap});
  const ExprId empty = context.rules.empty();
  std::vector<GraphEdge> edges;
  for (uint32_t i = 0; i < count; ++i) {
    Property& property = properties[i];
    const uint32_t none = i, some = count + 1 + i;
    if (!property.required) {
      edges.push_back({none, empty, none + 1});
      edges.push_back({some, empty, some + 1});
    }
    if (!property.possible) continue;
    if (names > kMaxInlineNameBytes) property.member = context.as_rule("property", property.member);
    edges.push_back({none, context.rules.sequence({gap, property.member}), some + 1});
    edges.push_back({some, context.rules.sequence({comma, property.member}), some + 1});
  }
  if (additional) {
    edges.push_back({count, context.rules.sequence({gap, *additional}), last});
    edges.push_back({last, context.rules.sequence({comma, *additional}), last});
  }
  const ExprId close = context.rules.literal("}");
  if (may_be_empty) edges.push_back({count, close, end});
  edges.push_back({last, context.rules.sequence({gap, close}), end});
  return context.rules.sequence(
      {context.rules.literal("{"), context.rules.graph(end + 1, std::move(edges), {end})});
}

}  // namespace forerun::grammar
