#include "grammar/grammar.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/compile_rules.h"
#include "grammar/configuration.h"
#include "grammar/grammar_text.h"
#include "grammar/json_rules.h"
#include "grammar/regex_rules.h"
#include "grammar/rule_set.h"
#include "grammar/schema.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

// Bytes of a long text that are walked before the levels between are forgotten.
constexpr size_t kChunkBytes = 256;

// The walker's last level as a configuration.
std::shared_ptr<const Configuration> keep_level(Walker& walker, const Program& program) {
  auto configuration = std::make_shared<Configuration>();
  std::vector<Place> places(walker.places().begin(), walker.places().end());
  configuration->hash = make_canonical(places);
  configuration->hash.mix(walker.complete() ? 1 : 0);
  configuration->hash.mix(program.identity);
  configuration->complete = walker.complete();
  walker.keep(places);
  configuration->places = std::move(places);
  return configuration;
}

}  // namespace

Walker& thread_walker() {
  thread_local Walker walker;
  return walker;
}

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

GrammarState Grammar::start() const {
  Walker& walker = thread_walker();
  walker.begin_at_root(*program_);
  return GrammarState(program_, keep_level(walker, *program_));
}

bool GrammarState::accept(std::string_view bytes) {
  uint64_t steps = 0;
  return advance(bytes, UINT64_MAX, steps) == Advance::kAccepted;
}

Advance GrammarState::advance(std::string_view bytes, uint64_t max_steps, uint64_t& steps) {
  if (bytes.empty()) return Advance::kAccepted;
  Walker& walker = thread_walker();
  const uint64_t first_step = walker.steps();
  std::shared_ptr<const Configuration> reached = configuration_;
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    walker.begin(*program_, reached->places, reached->complete);
    walker.limit(max_steps - std::min(max_steps, walker.steps() - first_step));
    for (const char c : bytes.substr(at, kChunkBytes)) {
      if (walker.push(static_cast<uint8_t>(c))) continue;
      steps += walker.steps() - first_step;
      return walker.halted() ? Advance::kHalted : Advance::kRefused;
    }
    reached = keep_level(walker, *program_);
  }
  steps += walker.steps() - first_step;
  configuration_ = std::move(reached);
  return Advance::kAccepted;
}

bool GrammarState::is_complete() const { return configuration_->complete; }
bool GrammarState::can_continue() const { return !configuration_->places.empty(); }
Hash128 GrammarState::hash() const { return configuration_->hash; }

}  // namespace forerun::grammar
