#include "grammar/schema_number.h"

#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "grammar/number_rules.h"

namespace forerun::grammar {

Result<ExprId> NumberReader::read(const Json& schema, const std::string& at, int types) {
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
        // Bounded numbers have fewer digits than this bound, so they are all on one side of it.
        if (value->negative != lower) return context_.rules.never();
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
    if (!least && !most && !multiple) return context_.json.fraction();
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
    if (!integer && step->places > 0) return multiples_between(context_.rules, least, most, *step);
    multiple_of = step->whole_step();
  }
  if (!integer && !multiple) {
    return least || most ? numbers_between(context_.rules, least, most) : context_.json.number();
  }
  int64_t first = -kLargestInteger, last = kLargestInteger;
  if (least) {
    // Replies have no integers above this one.
    if (compare(least->value, *Decimal::parse("999999999999999999")) > 0)
      return context_.rules.never();
    first = least->inclusive ? least->value.ceil(kLargestInteger)
                             : least->value.floor(kLargestInteger) + 1;
  }
  if (most) {
    if (compare(most->value, *Decimal::parse("-999999999999999999")) < 0)
      return context_.rules.never();
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
    ExprId integers = integers_between(context_.rules, first, last, multiple_of);
    if (context_.resolver.reading() == SchemaReading::kLetter && !context_.is_never(integers)) {
      // 6000.0 is an integer by the specification.
      integers = context_.rules.sequence(
          {integers, context_.rules.optional(context_.rules.literal(".0"))});
    }
    found->second = context_.as_rule("integer", integers);
  }
  return found->second;
}

}  // namespace forerun::grammar
