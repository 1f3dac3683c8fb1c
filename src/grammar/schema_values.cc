#include "grammar/schema_values.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/decimal.h"
#include "grammar/schema_judge.h"

namespace forerun::grammar {

ExprId fixed_value(SchemaContext& context, const Json& value) {
  if (value.is_string()) {
    return context.rules.literal(json_quoted(value.get_ref<const std::string&>()));
  }
  if (value.is_number_float()) {
    // 2.0 equals 2, and most models write the latter.
    const std::optional<Decimal> number = Decimal::parse(value.dump());
    if (number && number->fraction.empty() && number->whole.size() <= 15) {
      return context.rules.choice(
          {context.rules.literal(value.dump()),
           context.rules.literal((number->negative ? "-" : "") + number->whole)});
    }
  }
  if (!value.is_structured()) return context.rules.literal(value.dump());
  const bool object = value.is_object();
  std::vector<ExprId> parts = {context.rules.literal(object ? "{" : "[")};
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (item != value.begin()) parts.push_back(context.rules.literal(","));
    parts.push_back(context.json.gap());
    const ExprId inner = fixed_value(context, *item);
    parts.push_back(object ? context.json.member(item.key(), inner) : inner);
  }
  if (!value.empty()) parts.push_back(context.json.gap());
  parts.push_back(context.rules.literal(object ? "}" : "]"));
  return context.rules.sequence(std::move(parts));
}

Result<ExprId> read_values(SchemaContext& context, const Json& schema, const std::string& at) {
  Json values = schema.contains("const") ? Json::array({schema.at("const")}) : schema.at("enum");
  if (!values.is_array()) return refuse_at(child_of(at, "enum"), shown(values), "a list of values");
  if (schema.contains("const") && schema.contains("enum")) {
    const Json& listed = schema.at("enum");
    if (std::find(listed.begin(), listed.end(), values[0]) == listed.end())
      return context.rules.never();
  }
  FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(schema, at));
  Json rest = schema;
  rest.erase("enum");
  rest.erase("const");
  const bool alone = !has_assertions(rest, "type");
  std::vector<ExprId> parts;
  for (const Json& value : values) {
    if ((type_of_value(value) & types) == 0) continue;
    if (!alone) {
      FORERUN_ASSIGN_OR_RETURN(const Verdict satisfies, judge(context.resolver, rest, value, at));
      if (satisfies == Verdict::kNo) continue;
      if (satisfies == Verdict::kUnknown) {
        return refuse_at(at, "enum or const beside keywords that cannot be checked here",
                         "enum and const beside patterns, lengths, bounds and members",
                         StatusCode::kUnsupported);
      }
    }
    parts.push_back(fixed_value(context, value));
  }
  const bool many = parts.size() > 4;
  const ExprId choice = context.rules.choice(std::move(parts));
  return many ? context.as_rule(at.empty() ? "#" : at, choice) : choice;
}

}  // namespace forerun::grammar
