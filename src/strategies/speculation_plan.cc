#include "strategies/speculation_plan.h"

#include <utility>

#include "base/status_macros.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

Status refused(const std::string& message) { return Status(StatusCode::kInvalidArgument, message); }

// Parses the options of any strategy: refuses names and numbers that no strategy accepts.
Result<SpeculationPlan> parse(const SpeculationOptions& options, const ModelFacts& models) {
  SpeculationPlan plan;
  plan.models = models;
  FORERUN_RETURN_IF_ERROR(check_ranges(options));
  if (!options.shape.empty()) {
    FORERUN_ASSIGN_OR_RETURN(plan.shape, parse_tree_shape(options.shape));
  }
  if (!options.source.empty()) {
    FORERUN_ASSIGN_OR_RETURN(plan.source, parse_draft_source(options.source));
  }
  FORERUN_ASSIGN_OR_RETURN(plan.accept, parse_accept(options.accept));
  plan.verify_tokens = number_of(options, SpeculationOption::kVerifyTokens);
  plan.draft_width = number_of(options, SpeculationOption::kDraftWidth);
  plan.draft_depth = number_of(options, SpeculationOption::kDraftDepth);
  plan.extra_draft_steps = number_of(options, SpeculationOption::kExtraDraftSteps);
  plan.children_per_leaf = number_of(options, SpeculationOption::kChildrenPerLeaf);
  if (!options.view.empty()) {
    plan.view.kind = find_view(options.view);
    if (plan.view.kind == nullptr) {
      return refused("view '" + options.view + "'; accepted: " + view_names());
    }
  }
  plan.view.budget = number_of(options, SpeculationOption::kViewBudget);
  plan.shared_noise = options.shared_noise.value_or(true);
  return plan;
}

Status check_use(const SpeculationOptions& options, const SpeculationPlan& plan) {
  const OptionSet used = plan.strategy->uses(plan.shape, !plan.source.empty());
  const OptionSet with_source = plan.strategy->uses(plan.shape, true);
  for (int32_t idx = 0; idx < kNumSpeculationOptions; ++idx) {
    const auto option = static_cast<SpeculationOption>(idx);
    const std::optional<std::string> value = option_value(options, option);
    if (!value || used.has(option)) continue;
    const bool depends_on_shape = used.has(SpeculationOption::kShape);
    return refused(std::string(option_name(option)) + ": found " + *value + ", but strategy " +
                   plan.strategy->name +
                   (depends_on_shape ? " with shape " + plan.shape.name : std::string()) +
                   (with_source.has(option) ? " without a source" : "") +
                   " does not use it; it uses " + option_names(used));
  }
  return Status();
}

// Returns the names of the model-free sources: "ngram, suffix", or with `before` "model+",
// "model+ngram, model+suffix".
std::string other_sources(const std::string& before) {
  std::string names;
  for (const DraftSourceEntry& entry : draft_source_table()) {
    if (!entry.is_model()) names += (names.empty() ? "" : ", ") + before + entry.name;
  }
  return names;
}

Status check_draft_model(const SpeculationPlan& plan) {
  const bool has_draft_model = plan.models.has_draft_model;
  const StrategyEntry& strategy = *plan.strategy;
  if (strategy.needs_draft_model && !has_draft_model) {
    return refused(std::string("strategy ") + strategy.name +
                   " needs a draft model, and none is loaded; accepted without one: " +
                   strategy_names(/*with_draft_model=*/false));
  }
  if (strategy.needs_draft_model && !plan.source.model) {
    return refused(std::string("strategy ") + strategy.name +
                   " needs a draft model, but the draft source is '" + plan.source.name() +
                   "'; accepted with this strategy: model, " + other_sources("model+"));
  }
  if (plan.source.model && plan.models.draft_is_head && !strategy.takes_head) {
    return refused(std::string("strategy ") + strategy.name + " with draft source '" +
                   plan.source.name() +
                   "', but the draft is a trained head; accepted with a head: " + "strategy " +
                   head_strategy_names() + ", or source " + other_sources(""));
  }
  if (plan.source.model && !has_draft_model) {
    return refused("draft source '" + plan.source.name() +
                   "' needs a draft model, and none is loaded; accepted without one: " +
                   other_sources("") + ", or several joined by '+'");
  }
  return Status();
}

// Refuses a view_budget without a view.
Status check_view_budget(const SpeculationOptions& options, const SpeculationPlan& plan) {
  if (!options.view_budget || plan.view.kind != nullptr) return Status();
  return refused("view_budget: found " + std::to_string(*options.view_budget) +
                 ", but no view; accepted: a budget together with one of the views " +
                 view_names());
}

using PlanPtr = std::shared_ptr<const SpeculationPlan>;

Result<PlanPtr> resolve_for(const StrategyEntry& strategy, const SpeculationOptions& options,
                            const ModelFacts& models) {
  FORERUN_ASSIGN_OR_RETURN(SpeculationPlan plan, parse(options, models));
  plan.strategy = &strategy;
  FORERUN_RETURN_IF_ERROR(check_use(options, plan));
  FORERUN_RETURN_IF_ERROR(strategy.check(plan));
  FORERUN_RETURN_IF_ERROR(check_draft_model(plan));
  FORERUN_RETURN_IF_ERROR(check_view_budget(options, plan));
  return PlanPtr(std::make_shared<const SpeculationPlan>(std::move(plan)));
}

Result<PlanPtr> resolve_leniently(const std::string& name, const SpeculationOptions& options,
                                  const ModelFacts& models) {
  const StrategyEntry& strategy = *find_strategy(name);
  return resolve_for(strategy, without_unused(strategy, options), models);
}

Result<PlanPtr> resolve_auto(SpeculationOptions options, const ModelFacts& models,
                             const AutoChoice& choice) {
  FORERUN_ASSIGN_OR_RETURN(const SpeculationPlan parsed, parse(options, models));
  if (parsed.view.kind != nullptr) {
    FORERUN_RETURN_IF_ERROR(parsed.view.kind->check(parsed.view.budget));
  }
  // The engine chooses the view by the load.
  options.view.clear();
  options.view_budget.reset();
  if (choice.strategy != "serial_tree") {
    SpeculationOptions chosen = options;
    if (!chosen.extra_draft_steps) chosen.extra_draft_steps = choice.extra_draft_steps;
    auto plan = resolve_leniently(choice.strategy, chosen, models);
    if (plan.ok()) return plan;
  }
  FORERUN_ASSIGN_OR_RETURN(PlanPtr plan, resolve_leniently("serial_tree", options, models));
  const bool draft_may_pay = choice.source_without_draft.empty() || !models.has_draft_model;
  if (draft_may_pay || !options.source.empty()) return plan;
  // Trees of fixed sizes, and options that need a draft model, would cost more than they gain.
  if (plan->shape.kind != TreeShape::Kind::kAdaptive || plan->accept.rule != AcceptRule::kMatch) {
    return resolve_leniently("autoregressive", options, models);
  }
  options.source = choice.source_without_draft;
  return resolve_leniently("serial_tree", options, models);
}

bool asks_for_anything(const SpeculationOptions& options) {
  for (int32_t idx = 0; idx < kNumSpeculationOptions; ++idx) {
    if (option_value(options, static_cast<SpeculationOption>(idx))) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Strategy> SpeculationPlan::make_strategy(const StrategyParts& parts) const {
  std::unique_ptr<Strategy> made = strategy->make(*this, parts);
  made->on_costs(parts.costs);
  return made;
}

Result<PlanPtr> resolve_speculation(const SpeculationOptions& options, const ModelFacts& models,
                                    const AutoChoice& choice) {
  if (options.strategy == "auto") {
    FORERUN_ASSIGN_OR_RETURN(const PlanPtr plan, resolve_auto(options, models, choice));
    if (asks_for_anything(options)) return plan;
    auto automatic = std::make_shared<SpeculationPlan>(*plan);
    automatic->automatic = true;
    return PlanPtr(std::move(automatic));
  }
  const StrategyEntry* const strategy = find_strategy(options.strategy);
  if (strategy == nullptr) {
    return refused("strategy: found '" + options.strategy + "'; accepted: auto, " +
                   strategy_names());
  }
  return resolve_for(*strategy, options, models);
}

SpeculationPlan without_draft_model(const SpeculationPlan& plan) {
  if (!plan.source.model) return plan;
  SpeculationPlan left = plan;
  left.source.model = false;
  const bool is_sparse_self = plan.strategy == find_strategy("sparse_self");
  const bool guesses = is_sparse_self || !left.source.others.empty();
  // Rule `rejection` needs samples of the draft model, so no other source can replace it.
  if (plan.strategy->needs_draft_model || !guesses || plan.accept.rule == AcceptRule::kRejection) {
    left.strategy = find_strategy("autoregressive");
    left.source = {};
  }
  if (!is_sparse_self) left.view = {};  // it was the draft's view
  return left;
}

Status check_view(const SpeculationPlan& plan, Role role) {
  const auto& [kind, budget] = plan.view;
  if (kind == nullptr) return Status();
  FORERUN_RETURN_IF_ERROR(kind->check(budget));
  // The KV that a draft reads through a view depends on how its prompt is divided into Steps, and
  // so do its guesses. Under rules that are not exact, the output would depend on it too.
  if (!accept_rule_entry(plan.accept.rule).exact) {
    return refused(std::string("view '") + kind->name + "': found with accept rule '" +
                   plan.accept.name() + "'; accepted with a view: match");
  }
  const auto role_idx = static_cast<size_t>(role);
  const KvViewNeeds available = !plan.models.selects_kv[role_idx] ? KvViewNeeds::kNothing
                                : !plan.models.quantizes_keys[role_idx]
                                    ? KvViewNeeds::kSelection
                                    : KvViewNeeds::kQuantizedKeys;
  if (kind->needs > available) {
    const char* const lacking = available == KvViewNeeds::kNothing
                                    ? " model's devices do not choose and gather KV"
                                    : " model's devices do not find KV by quantized keys";
    return refused(std::string("view '") + kind->name + "': the " + role_name(role) + lacking +
                   "; accepted with these devices: " + view_names(available));
  }
  const int32_t context = plan.models.max_context;
  if (context > 0 && budget >= context) {
    return refused("view_budget: found " + std::to_string(budget) +
                   "; accepted: less than the context's " + std::to_string(context) + " tokens");
  }
  if (plan.models.has_window[static_cast<size_t>(role)]) {
    return refused(std::string("view '") + kind->name + "': the " + role_name(role) +
                   " model has layers with a sliding window, which see the last tokens only; "
                   "accepted with this model: no view");
  }
  return Status();
}

std::string describe(const SpeculationPlan& plan) {
  const OptionSet used = plan.strategy->uses(plan.shape, !plan.source.empty());
  std::string text = plan.strategy->name;
  if (used.has(SpeculationOption::kShape)) text += ", shape " + plan.shape.name;
  if (used.has(SpeculationOption::kSource) && !plan.source.empty()) {
    text += ", source " + plan.source.name();
  }
  if (used.has(SpeculationOption::kAccept)) {
    text += ", accept " + plan.accept.name();
  }
  if (used.has(SpeculationOption::kView) && plan.view.kind != nullptr) {
    text += std::string(", view ") + plan.view.kind->name;
  }
  return text;
}

}  // namespace forerun
