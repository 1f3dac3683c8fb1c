#include "engine/auto_strategy.h"

#include <algorithm>
#include <cmath>

#include "planner/assumed_acceptance.h"
#include "step/step.h"
#include "views/view_table.h"

namespace forerun {
namespace {

// Tokens of a view.
constexpr int32_t kBudgets[] = {512, 1024, 2048};
constexpr int32_t kMostGuesses = 8;
// What a view must promise over the usual way to take its place, and to keep it: a Step's time is
// known to some percent, how often guesses will be right is not.
constexpr double kToEnter = 1.15;
constexpr double kToStay = 1.0;
// Draft Steps in whose time a sequence's whole cache is read once for a choice of what a view
// gathers: 32 observers score every key of every layer. 24 have been measured on an H200, 6 on a
// processor.
constexpr double kReadingsAChoice = 24.0;

// Rounds that are measured together, and those that come before where a view has begun.
constexpr int32_t kMeasuredRounds = 6;
constexpr int32_t kMeasuredSteps = 24;  // of the usual way
constexpr int32_t kSettlingRounds = 2;
// Of the usual rate, what a view has to reach.
constexpr double kWorth = 1.02;

// Whether what was measured at one load says something of the other.
bool alike(const BatchLoad& a, const BatchLoad& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 0.15 * std::max(x, y); };
  return close(a.sequences, b.sequences) &&
         close(static_cast<double>(a.context_tokens), static_cast<double>(b.context_tokens));
}

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

// Reading of the whole cache at every draft Step, for the choices that it leads to. A gathered head
// is chosen anew once half of the budget, less a block, has come since (views/snap_kv.cc).
double selection_share(const KvViewEntry& view, int32_t budget) {
  if (view.needs == KvViewNeeds::kNothing) return 0.0;
  return view.facts.selection_share + kReadingsAChoice / (budget / 2 - kKvBlockTokens);
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
      const KvShape shape = {.tokens = models.max_context,
                             .head_dim = models.head_dim[static_cast<size_t>(Role::kTarget)]};
      found.rates.push_back(
          {.draft = {.budget_tokens = budget, .selection_share = selection_share(view, budget)},
           .view = view.name,
           .acceptance = assumed_acceptance(view.facts, budget),
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

double AutoStrategy::Meter::rate(const Progress& now) const {
  const double seconds = now.seconds - begin.seconds;
  return seconds > 0.0 ? static_cast<double>(now.tokens - begin.tokens) / seconds : 0.0;
}

bool AutoStrategy::change_to(std::shared_ptr<const SpeculationPlan> next, int32_t candidate) {
  if (next == present_) return false;
  present_ = std::move(next);
  candidate_ = present_ ? candidate : -1;
  meter_.looks = 0;
  return true;
}

bool AutoStrategy::measure(const BatchLoad& load, const Progress& progress) {
  const int32_t steps = present_ ? present_->draft_depth + 1 : 1;  // of a round
  // The first rounds end what was under way, and choose.
  const int32_t settled = present_ ? kSettlingRounds * steps : 0;
  if (meter_.looks == 0 || meter_.looks == settled || !alike(meter_.load, load)) {
    meter_.begin = progress;
    if (!alike(meter_.load, load)) meter_.looks = std::min(meter_.looks, settled);
    meter_.load = load;
  }
  const int32_t measured = present_ ? kMeasuredRounds * steps : kMeasuredSteps;
  if (++meter_.looks <= settled + measured) return true;
  const double rate = meter_.rate(progress);
  meter_.looks = settled;
  if (!present_) {
    usual_load_ = load;
    usual_rate_ = rate;
    return true;
  }
  return !alike(usual_load_, load) || rate >= kWorth * usual_rate_;
}

bool AutoStrategy::look(const LiveCosts& costs, BatchLoad load, const Progress& progress) {
  if (options_.empty() || load.sequences < 1) return false;
  ++looks_;
  if (!measure(load, progress)) {
    barred_until_ = looks_ + bar_;
    bar_ *= 2;
    return change_to(nullptr, -1);
  }
  if (present_) {  // what it holds is there for it
    load.free_tokens +=
        load.sequences * chooser_.candidates()[static_cast<size_t>(candidate_)].own_tokens;
  } else if (looks_ < barred_until_ || usual_rate_ <= 0.0 || !alike(usual_load_, load)) {
    return false;
  }
  SpeculationForecast choice;
  costs.read([&](const StepCosts& known) {
    if (known.has(Role::kTarget)) choice = chooser_.choose(known, load);
  });
  // What the usual way gains over plain decoding.
  const double usual = std::max(1.0, usual_rate_ * choice.times.plain / load.sequences);
  const double needed = (present_ ? kToStay : kToEnter) * usual;
  std::shared_ptr<const SpeculationPlan> next;
  if (!choice.is_plain() && choice.speedup >= needed) {
    next = plan_of(choice.candidate, choice.gamma);
  }
  return change_to(std::move(next), choice.candidate);
}

void AutoStrategy::observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted) {
  if (&plan != present_.get() || guesses < 1) return;
  chooser_.observe(candidate_, guesses, accepted);
}

}  // namespace forerun
