#include "engine/auto_strategy.h"

#include <algorithm>

#include "planner/draft_views.h"
#include "step/step.h"
#include "views/view_table.h"

namespace forerun {
namespace {

// Tokens of a view.
constexpr int32_t kBudgets[] = {512, 1024, 2048};
constexpr int32_t kMostGuesses = 8;
// What a view must promise over the usual way to take its place, and to keep it.
constexpr double kToEnter = 1.08;
constexpr double kToStay = 1.0;

struct Candidates {
  std::vector<SpeculationCandidate> rates;
  std::vector<SpeculationOptions> options;
};

SpeculationOptions self_options(const std::string& view, int32_t budget, int32_t gamma) {
  SpeculationOptions options;
  options.strategy = "sparse_self";
  options.view = view;
  options.view_budget = budget;
  options.draft_depth = gamma;
  return options;
}

// Those that the models and this build take, of which it is published how often they are right.
Candidates find_candidates(const ModelFacts& models, const AutoStrategy::Resolve& resolve) {
  Candidates found;
  for (const KvViewEntry& view : view_table()) {
    if (view.facts.is_bound || view.facts.published_acceptance <= 0.0) continue;
    for (const int32_t budget : kBudgets) {
      // A view of most of the cache saves nothing.
      if (models.max_context > 0 && 2 * budget > models.max_context) continue;
      const SpeculationOptions options = self_options(view.name, budget, 1);
      if (!resolve(options).ok()) continue;
      found.options.push_back(options);
      const KvShape shape = {.tokens = models.max_context};
      found.rates.push_back(
          {.draft = {.budget_tokens = budget, .selection_share = view.facts.selection_share},
           .view = view.name,
           .acceptance = acceptance_at(view.facts.published_acceptance, view.facts.budget, budget),
           .own_tokens = int64_t{kKvBlockTokens} * view.own_blocks(budget, shape)});
    }
  }
  return found;
}

}  // namespace

AutoStrategy::AutoStrategy(const ModelFacts& models, const Resolve& resolve)
    : resolve_(resolve),
      options_(find_candidates(models, resolve).options),
      chooser_(find_candidates(models, resolve).rates, {.rank = {.max_gamma = kMostGuesses}}) {}

std::shared_ptr<const SpeculationPlan> AutoStrategy::plan_of(int32_t candidate, int32_t gamma) {
  auto& plan = plans_[{candidate, gamma}];
  if (plan) return plan;
  SpeculationOptions options = options_[static_cast<size_t>(candidate)];
  options.draft_depth = gamma;
  const auto resolved = resolve_(options);
  if (!resolved.ok()) return nullptr;
  auto made = std::make_shared<SpeculationPlan>(**resolved);
  made->automatic = true;
  return plan = std::move(made);
}

bool AutoStrategy::look(const LiveCosts& costs, BatchLoad load, double usual_speedup) {
  if (options_.empty() || load.sequences < 1) return false;
  if (present_) {  // what it holds is there for it
    load.free_tokens +=
        load.sequences * chooser_.candidates()[static_cast<size_t>(candidate_)].own_tokens;
  }
  SpeculationForecast choice;
  costs.read([&](const StepCosts& known) {
    if (known.has(Role::kTarget)) choice = chooser_.choose(known, load);
  });
  const double needed = (present_ ? kToStay : kToEnter) * std::max(usual_speedup, 1.0);
  std::shared_ptr<const SpeculationPlan> next;
  if (!choice.is_plain() && choice.speedup >= needed) {
    next = plan_of(choice.candidate, choice.gamma);
  }
  if (next == present_) return false;
  present_ = std::move(next);
  candidate_ = present_ ? choice.candidate : -1;
  return true;
}

void AutoStrategy::observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted) {
  if (&plan != present_.get() || guesses < 1) return;
  chooser_.observe(candidate_, guesses, accepted);
}

}  // namespace forerun
