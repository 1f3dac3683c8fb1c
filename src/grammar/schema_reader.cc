#include "grammar/schema_reader.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_array.h"
#include "grammar/schema_exclusive.h"
#include "grammar/schema_judge.h"
#include "grammar/schema_merge.h"
#include "grammar/schema_negate.h"
#include "grammar/schema_string.h"
#include "grammar/schema_values.h"

namespace forerun::grammar {

SchemaReader::SchemaReader(SchemaResolver& resolver, const GrammarLimits& limits, RuleSet& rules)
    : context_(resolver, limits, rules,
               [this](const Json& schema, const std::string& at, int depth) {
                 return read(schema, at, depth);
               }),
      numbers_(context_),
      objects_(context_) {}

Result<RuleId> SchemaReader::read_document() {
  FORERUN_ASSIGN_OR_RETURN(const ExprId root, read_reference("#", "", 0));
  return context_.rules.expr(root).rule;
}

Result<ExprId> SchemaReader::read(const Json& schema, const std::string& at, int depth) {
  if (schema.is_boolean()) return schema == true ? context_.json.value() : context_.rules.never();
  if (!schema.is_object()) {
    return refuse_at(at, shown(schema), "a schema: an object, true or false");
  }
  if (depth > context_.limits.max_depth) {
    return refuse_at(at, "a schema that is nested too deeply",
                     "up to " + std::to_string(context_.limits.max_depth) + " levels",
                     StatusCode::kResourceExhausted);
  }
  if (context_.rules.expr_count() > context_.limits.max_expressions ||
      context_.rules.rule_count() > context_.limits.max_rules) {
    return refuse_at(at, "a schema that is too large",
                     "up to " + std::to_string(context_.limits.max_expressions) +
                         " expressions and " + std::to_string(context_.limits.max_rules) +
                         " rules in all",
                     StatusCode::kResourceExhausted);
  }
  FORERUN_RETURN_IF_ERROR(check_keywords(schema, at));
  if (context_.resolver.is_reference(schema)) return read_reference(schema.at("$ref"), at, depth);
  if (context_.resolver.needs_flattening(schema)) return read_flattened(schema, at, depth);
  if (schema.contains("anyOf")) return read_alternatives(schema, "anyOf", at, depth);
  if (schema.contains("oneOf")) return read_alternatives(schema, "oneOf", at, depth);
  if (schema.contains("enum") || schema.contains("const")) return read_values(context_, schema, at);
  if (!has_assertions(schema, "")) return context_.json.value();
  return read_types(schema, at, depth);
}

// Reads a schema without references. Equal merges give equal results, so reading a schema that
// contains itself within an allOf terminates.
Result<ExprId> SchemaReader::read_flattened(const Json& schema, const std::string& at, int depth) {
  const auto parts = schema.find("allOf");
  if (parts != schema.end() && parts->is_array() && parts->size() == 1 &&
      !has_assertions(schema, "allOf") && (*parts)[0].is_object()) {
    return read((*parts)[0], child_of(child_of(at, "allOf"), "0"), depth + 1);
  }
  FORERUN_ASSIGN_OR_RETURN(const Json flat, context_.resolver.flattened(schema, at));
  if (!flat.is_object()) return read(flat, at, depth);
  const auto [found, inserted] = merged_.try_emplace(flat.dump());
  if (inserted) {
    const RuleId rule = context_.rules.add_rule(at.empty() ? "#" : at, true);
    found->second = rule;
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read(flat, at, depth + 1));
    context_.rules.define(rule, expr);
    if (context_.is_never(expr)) nevers_.insert(rule);
    return context_.is_never(expr) ? expr : context_.rules.rule(rule);
  }
  return nevers_.contains(found->second) ? context_.rules.never()
                                         : context_.rules.rule(found->second);
}

Result<ExprId> SchemaReader::read_reference(const Json& ref, const std::string& at, int depth) {
  FORERUN_ASSIGN_OR_RETURN(const Json* target, context_.resolver.target(ref, at));
  const std::string& name = ref.get_ref<const std::string&>();
  const auto [found, inserted] = references_.try_emplace(name);
  // Named before it is read, since the schema may refer back to it.
  const RuleId rule =
      inserted ? found->second = context_.rules.add_rule(name, true) : found->second;
  if (inserted) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId expr, read(*target, name, depth + 1));
    context_.rules.define(rule, expr);
  }
  return context_.rules.rule(rule);
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

// Reads anyOf or oneOf. Keywords beside it apply to every alternative.
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
    FORERUN_ASSIGN_OR_RETURN(const Json part, context_.resolver.flattened(parts[i], part_at));
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
  // The schemas that are read; references stay unchanged unless merged.
  std::vector<Json> exact = whole;
  if (alone) exact.assign(parts.begin(), parts.end());
  for (size_t i = 0; i < whole.size() && one; ++i) {
    const std::string part_at = child_of(place, std::to_string(i));
    for (size_t j = 0; j < i; ++j) {
      FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                               exclude_one_another(context_.resolver, whole[i], whole[j], part_at));
      if (excluded) continue;
      // Each of the two is read without the values that the other allows.
      for (const auto& [of, other] : {std::pair(i, j), std::pair(j, i)}) {
        FORERUN_ASSIGN_OR_RETURN(const std::optional<Json> rest,
                                 negated(context_.resolver, parts[other], part_at, 0));
        if (!rest) return refuse_overlap(part_at, j);
        exact[of] = Json{{"allOf", Json::array({std::move(exact[of]), *rest})}};
      }
    }
  }
  std::vector<ExprId> alternatives;
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::string part_at = child_of(place, std::to_string(i));
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read(exact[i], part_at, depth + 1));
    if (!context_.is_never(part)) alternatives.push_back(part);
  }
  return context_.rules.choice(std::move(alternatives));
}

Result<ExprId> SchemaReader::read_types(const Json& schema, const std::string& at, int depth) {
  FORERUN_ASSIGN_OR_RETURN(uint8_t types, types_of(schema, at));
  if (!schema.contains("type") && context_.resolver.reading() == SchemaReading::kIntent) {
    types = types_suggested(schema);
  }
  const std::string name = at.empty() ? "#" : at;
  std::vector<ExprId> parts;
  const auto add = [&](ExprId part) {
    if (!context_.is_never(part)) parts.push_back(part);
  };
  const Json excluded = schema.contains(kExcluded) ? schema.at(kExcluded) : Json::array();
  const auto allowed = [&](const Json& value) {
    return std::find(excluded.begin(), excluded.end(), value) == excluded.end();
  };
  if (types & kBooleanType && allowed(true)) add(context_.rules.literal("true"));
  if (types & kBooleanType && allowed(false)) add(context_.rules.literal("false"));
  for (const Json& value : excluded) {
    if (value.is_string() || value.is_boolean() || value.is_null()) continue;
    if ((type_of_value(value) & types) == 0) continue;
    return refuse_at(at, "all values but " + shown(value), "strings, true, false and null in not",
                     StatusCode::kUnsupported);
  }
  if (types & kNullType && allowed(nullptr)) add(context_.rules.literal("null"));
  if (types & kObjectType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, objects_.read(schema, at, depth));
    add(context_.as_rule(name, part));
  }
  if (types & kArrayType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_array(context_, schema, at, depth));
    add(context_.as_rule(name, part));
  }
  if (types & kStringType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, read_string(context_, schema, at));
    add(context_.as_rule(name, part));
  }
  if (types & kNumberType) {
    FORERUN_ASSIGN_OR_RETURN(const ExprId part, numbers_.read(schema, at, types & kNumberType));
    add(context_.as_rule(name, part));
  }
  return context_.rules.choice(std::move(parts));
}

}  // namespace forerun::grammar
