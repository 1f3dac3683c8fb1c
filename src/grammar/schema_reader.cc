#include "grammar/schema_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_exclusive.h"
#include "grammar/schema_judge.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_negate.h"

namespace forerun::grammar {

ExprId SchemaReader::as_rule(const std::string& name, ExprId expr) {
  const Expr::Kind kind = rules_.expr(expr).kind;
  if (kind == Expr::Kind::kNever) return expr;
  if (kind == Expr::Kind::kRule && rules_.rule_at(rules_.expr(expr).rule).shared) return expr;
  return rules_.rule(rules_.new_rule(name, expr, true));
}

Result<RuleId> SchemaReader::read_document() {
  FORERUN_ASSIGN_OR_RETURN(const ExprId root, read_reference("#", "", 0));
  return rules_.expr(root).rule;
}

Result<ExprId> SchemaReader::read(const Json& schema, const std::string& at, int depth) {
  if (schema.is_boolean()) return schema == true ? json_.value() : rules_.never();
  if (!schema.is_object()) {
    return refuse_at(at, shown(schema), "a schema: an object, true or false");
  }
  if (depth > limits_.max_depth) {
    return refuse_at(at, "a schema that is nested too deeply",
                     "up to " + std::to_string(limits_.max_depth) + " levels",
                     StatusCode::kResourceExhausted);
  }
  if (rules_.expr_count() > limits_.max_expressions || rules_.rule_count() > limits_.max_rules) {
    return refuse_at(at, "a schema that is too large",
                     "up to " + std::to_string(limits_.max_expressions) + " expressions and " +
                         std::to_string(limits_.max_rules) + " rules in all",
                     StatusCode::kResourceExhausted);
  }
  FORERUN_RETURN_IF_ERROR(check_keywords(schema, at));
  if (resolver_.is_reference(schema)) return read_reference(schema.at("$ref"), at, depth);
  if (resolver_.needs_flattening(schema)) return read_flattened(schema, at, depth);
  if (schema.contains("anyOf")) return read_alternatives(schema, "anyOf", at, depth);
  if (schema.contains("oneOf")) return read_alternatives(schema, "oneOf", at, depth);
  if (schema.contains("enum") || schema.contains("const")) return read_values(schema, at);
  if (!has_assertions(schema, "")) return json_.value();
  return read_types(schema, at, depth);
}

// What merging makes is the same wherever a schema is merged in the same way, so that a schema that
// holds itself within an allOf comes to an end.
Result<ExprId> SchemaReader::read_flattened(const Json& schema, const std::string& at, int depth) {
  const auto parts = schema.find("allOf");
  if (parts != schema.end() && parts->is_array() && parts->size() == 1 &&
      !has_assertions(schema, "allOf") && (*parts)[0].is_object()) {
    return read((*parts)[0], child_of(child_of(at, "allOf"), "0"), depth + 1);
  }
  FORERUN_ASSIGN_OR_RETURN(const Json flat, resolver_.flattened(schema, at));
  if (!flat.is_object()) return read(flat, at, depth);
  const auto [found, inserted] = merged_.try_emplace(flat.dump());
  if (inserted) {
    const RuleId rule = rules_.add_rule(at.empty() ? "#" : at, true);
    found->second = rule;
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read(flat, at, depth + 1));
    rules_.define(rule, expr);
    if (is_never(expr)) nevers_.insert(rule);
    return is_never(expr) ? expr : rules_.rule(rule);
  }
  return nevers_.contains(found->second) ? rules_.never() : rules_.rule(found->second);
}

Result<ExprId> SchemaReader::read_reference(const Json& ref, const std::string& at, int depth) {
  FORERUN_ASSIGN_OR_RETURN(const Json* target, resolver_.target(ref, at));
  const std::string& name = ref.get_ref<const std::string&>();
  const auto [found, inserted] = references_.try_emplace(name);
  // Named before it is read, since what it reads may refer back to it.
  const RuleId rule = inserted ? found->second = rules_.add_rule(name, true) : found->second;
  if (inserted) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read(*target, name, depth + 1));
    rules_.define(rule, expr);
  }
  return rules_.rule(rule);
}

namespace {

Status refuse_overlap(const std::string& at, size_t other) {
  return refuse_at(at,
                   "an alternative of oneOf that may match the same value as alternative " +
                       std::to_string(other),
                   "anyOf, or alternatives that differ in type, in a required property's const or "
                   "enum, or in required properties under additionalProperties: false",
                   StatusCode::kUnsupported);
}

}  // namespace

// anyOf and oneOf. What stands beside it holds for every alternative.
Result<ExprId> SchemaReader::read_alternatives(const Json& schema, const char* keyword,
                                               const std::string& at, int depth) {
  const std::string place = child_of(at, keyword);
  const Json& parts = schema.at(keyword);
  if (!parts.is_array() || parts.empty()) {
    return refuse_at(place, shown(parts), "a list of at least one schema");
  }
  const bool one = std::string_view(keyword) == "oneOf";
  Json siblings = schema;
  siblings.erase(keyword);
  const bool alone = !has_assertions(schema, keyword);
  std::vector<Json> whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (alone && !one) {
      whole.push_back(parts[i]);
      continue;
    }
    const std::string part_at = child_of(place, std::to_string(i));
    FORERUN_ASSIGN_OR_RETURN(const Json part, resolver_.flattened(parts[i], part_at));
    if (part.is_object()) {
      FORERUN_RETURN_IF_ERROR(check_keywords(part, part_at));
    }
    if (alone) {
      whole.push_back(part);
      continue;
    }
    FORERUN_ASSIGN_OR_RETURN(Json merged, merge_schemas(siblings, part, part_at));
    whole.push_back(std::move(merged));
  }
  std::vector<Json> exact = whole;  // what is read; by themselves, references stay what they are
  if (alone) exact.assign(parts.begin(), parts.end());
  for (size_t i = 0; i < whole.size() && one; ++i) {
    const std::string part_at = child_of(place, std::to_string(i));
    for (size_t j = 0; j < i; ++j) {
      FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                               exclude_one_another(resolver_, whole[i], whole[j], part_at));
      if (excluded) continue;
      // Each of the two is read as what the other does not allow.
      for (const auto& [of, other] : {std::pair(i, j), std::pair(j, i)}) {
        FORERUN_ASSIGN_OR_RETURN(const std::optional<Json> rest,
                                 negated(resolver_, parts[other], part_at, 0));
        if (!rest) return refuse_overlap(part_at, j);
        exact[of] = Json{{"allOf", Json::array({std::move(exact[of]), *rest})}};
      }
    }
  }
  std::vector<ExprId> alternatives;
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::string part_at = child_of(place, std::to_string(i));
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read(exact[i], part_at, depth + 1));
    if (!is_never(part)) alternatives.push_back(part);
  }
  return rules_.choice(std::move(alternatives));
}

Result<ExprId> SchemaReader::read_values(const Json& schema, const std::string& at) {
  Json values = schema.contains("const") ? Json::array({schema.at("const")}) : schema.at("enum");
  if (!values.is_array()) return refuse_at(child_of(at, "enum"), shown(values), "a list of values");
  if (schema.contains("const") && schema.contains("enum")) {
    const Json& listed = schema.at("enum");
    if (std::find(listed.begin(), listed.end(), values[0]) == listed.end()) return rules_.never();
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
      FORERUN_ASSIGN_OR_RETURN(const Verdict satisfies, judge(resolver_, rest, value, at));
      if (satisfies == Verdict::kNo) continue;
      if (satisfies == Verdict::kUnknown) {
        return refuse_at(at, "enum or const beside keywords that cannot be checked here",
                         "enum and const beside patterns, lengths, bounds and members",
                         StatusCode::kUnsupported);
      }
    }
    parts.push_back(fixed_value(value));
  }
  const bool many = parts.size() > 4;
  const ExprId choice = rules_.choice(std::move(parts));
  return many ? as_rule(at.empty() ? "#" : at, choice) : choice;
}

// One value, with the blanks that objects and arrays may have.
ExprId SchemaReader::fixed_value(const Json& value) {
  if (value.is_string()) {
    return rules_.literal(json_quoted(value.get_ref<const std::string&>()));
  }
  if (value.is_number_float()) {
    // 2.0 is 2, and most write it so.
    const std::optional<Decimal> number = Decimal::parse(value.dump());
    if (number && number->fraction.empty() && number->whole.size() <= 15) {
      return rules_.choice({rules_.literal(value.dump()),
                            rules_.literal((number->negative ? "-" : "") + number->whole)});
    }
  }
  if (!value.is_structured()) return rules_.literal(value.dump());
  const bool object = value.is_object();
  std::vector<ExprId> parts = {rules_.literal(object ? "{" : "[")};
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (item != value.begin()) parts.push_back(rules_.literal(","));
    parts.push_back(json_.gap());
    const ExprId inner = fixed_value(*item);
    parts.push_back(object ? json_.member(item.key(), inner) : inner);
  }
  if (!value.empty()) parts.push_back(json_.gap());
  parts.push_back(rules_.literal(object ? "}" : "]"));
  return rules_.sequence(std::move(parts));
}

Result<ExprId> SchemaReader::read_types(const Json& schema, const std::string& at, int depth) {
  FORERUN_ASSIGN_OR_RETURN(uint8_t types, types_of(schema, at));
  if (!schema.contains("type") && resolver_.reading() == SchemaReading::kIntent) {
    types = types_suggested(schema);
  }
  const std::string name = at.empty() ? "#" : at;
  std::vector<ExprId> parts;
  const auto add = [&](ExprId part) {
    if (!is_never(part)) parts.push_back(part);
  };
  const Json excluded = schema.contains(kExcluded) ? schema.at(kExcluded) : Json::array();
  const auto allowed = [&](const Json& value) {
    return std::find(excluded.begin(), excluded.end(), value) == excluded.end();
  };
  if (types & kBooleanType && allowed(true)) add(rules_.literal("true"));
  if (types & kBooleanType && allowed(false)) add(rules_.literal("false"));
  for (const Json& value : excluded) {
    if (value.is_string() || value.is_boolean() || value.is_null()) continue;
    if ((type_of_value(value) & types) == 0) continue;
    return refuse_at(at, "all values but " + shown(value), "strings, true, false and null in not",
                     StatusCode::kUnsupported);
  }
  if (types & kNullType && allowed(nullptr)) add(rules_.literal("null"));
  if (types & kObjectType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_object(schema, at, depth));
    add(as_rule(name, part));
  }
  if (types & kArrayType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_array(schema, at, depth));
    add(as_rule(name, part));
  }
  if (types & kStringType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_string(schema, at));
    add(as_rule(name, part));
  }
  if (types & kNumberType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_number(schema, at, types & kNumberType));
    add(as_rule(name, part));
  }
  return rules_.choice(std::move(parts));
}

}  // namespace forerun::grammar
