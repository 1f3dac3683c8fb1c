// Makes a Grammar from a schema, a text or a regular expression; grammar.cc walks it.
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/compile_rules.h"
#include "grammar/configuration.h"
#include "grammar/grammar.h"
#include "grammar/grammar_text.h"
#include "grammar/json_rules.h"
#include "grammar/regex_rules.h"
#include "grammar/rule_set.h"
#include "grammar/schema.h"
#include "grammar/walker.h"

namespace forerun::grammar {

Result<Grammar> Grammar::compile(const RuleSet& rules, uint32_t root, const GrammarLimits& limits) {
  FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                           compile_rules(rules, root, limits));
  Walker& walker = thread_walker();
  walker.begin_at_root(*program);
  if (walker.halted()) {
    return Status(StatusCode::kResourceExhausted,
                  "grammar: found more than " + std::to_string(kMaxPlaces) +
                      " ways in which a text can begin; accepted: fewer alternatives");
  }
  return Grammar(std::move(program));
}

Result<Grammar> Grammar::from_text(std::string_view text, const GrammarLimits& limits) {
  return from_text(text, {}, limits);
}

Result<Grammar> Grammar::from_text(std::string_view text, std::span<const NamedSchema> schemas,
                                   const GrammarLimits& limits) {
  RuleSet rules;
  std::vector<NamedRule> defined;
  for (const NamedSchema& named : schemas) {
    const Result<RuleId> rule =
        read_json_schema(named.schema, limits, SchemaReading::kIntent, rules);
    if (!rule.ok()) return rule.status().with_context("rule \"" + named.name + "\"");
    defined.push_back({named.name, *rule});
  }
  FORERUN_ASSIGN_OR_RETURN(const RuleId root, read_grammar_text(text, defined, limits, rules));
  return compile(rules, root, limits);
}

Result<Grammar> Grammar::from_json_schema(std::string_view schema, const GrammarLimits& limits,
                                          SchemaReading reading) {
  RuleSet rules;
  FORERUN_ASSIGN_OR_RETURN(const RuleId root, read_json_schema(schema, limits, reading, rules));
  return compile(rules, root, limits);
}

Result<Grammar> Grammar::json_object(const GrammarLimits& limits) {
  RuleSet rules;
  const ExprId object = JsonRules(rules).object();
  return compile(rules, rules.expr(object).rule, limits);
}

Result<Grammar> Grammar::from_regex(std::string_view regex, const GrammarLimits& limits) {
  RuleSet rules;
  const Result<ExprId> texts = read_regex(regex, limits, rules);
  if (!texts.ok()) return texts.status().with_context("regex");
  return compile(rules, rules.new_rule("root", *texts), limits);
}

}  // namespace forerun::grammar
