#include "planner/rank_speculation.h"

#include <algorithm>

namespace forerun {
namespace {

SpeculationForecast with_rate(SpeculationForecast made, const BatchLoad& load) {
  const double seconds = made.is_plain()
                             ? made.times.plain
                             : seconds_per_token(made.times, made.gamma, made.tokens_per_round);
  made.tokens_per_s = seconds > 0.0 ? load.sequences / seconds : 0.0;
  made.speedup = seconds > 0.0 ? made.times.plain / seconds : 1.0;
  return made;
}

}  // namespace

bool applies(const SpeculationCandidate& candidate, const StepCosts& costs, const BatchLoad& load) {
  if (!costs.has(candidate.draft.model)) return false;
  if (candidate.draft.checks.by_model && !costs.has(Role::kDraft)) return false;
  if (candidate.own_tokens > load.free_tokens / std::max(load.sequences, 1)) return false;
  const int64_t budget = candidate.draft.budget_tokens;
  if (budget <= 0) return candidate.draft.model == Role::kDraft;
  return budget < load.context_tokens;
}

SpeculationForecast forecast_plain(const StepCosts& costs, const BatchLoad& load) {
  SpeculationForecast made;
  made.times.plain = plain_step_seconds(costs, load);
  return with_rate(made, load);
}

SpeculationForecast forecast(const StepCosts& costs, const BatchLoad& load,
                             const std::vector<SpeculationCandidate>& candidates, int32_t index,
                             int32_t gamma, const RankOptions& options) {
  const SpeculationCandidate& candidate = candidates[static_cast<size_t>(index)];
  return with_rate(
      {.candidate = index,
       .gamma = gamma,
       .tokens_per_round = tokens_per_round(gamma, candidate.acceptance),
       .times = round_seconds(costs, load, candidate.draft, gamma, options.round_overhead)},
      load);
}

std::vector<SpeculationForecast> rank_speculation(
    const StepCosts& costs, const BatchLoad& load,
    const std::vector<SpeculationCandidate>& candidates, const RankOptions& options) {
  std::vector<SpeculationForecast> ranked = {forecast_plain(costs, load)};
  for (size_t index = 0; index < candidates.size(); ++index) {
    if (!applies(candidates[index], costs, load)) continue;
    for (int32_t gamma = 1; gamma <= options.max_gamma; ++gamma) {
      ranked.push_back(
          forecast(costs, load, candidates, static_cast<int32_t>(index), gamma, options));
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const SpeculationForecast& a, const SpeculationForecast& b) {
                     return a.speedup > b.speedup;
                   });
  return ranked;
}

SpeculationForecast best_speculation(const StepCosts& costs, const BatchLoad& load,
                                     const std::vector<SpeculationCandidate>& candidates,
                                     const RankOptions& options) {
  return rank_speculation(costs, load, candidates, options).front();
}

std::vector<SpeculationForecast> best_of_each(const std::vector<SpeculationForecast>& ranked) {
  std::vector<SpeculationForecast> best;
  for (const SpeculationForecast& each : ranked) {
    const bool seen = std::any_of(
        best.begin(), best.end(),
        [&](const SpeculationForecast& earlier) { return earlier.candidate == each.candidate; });
    if (!seen) best.push_back(each);
  }
  return best;
}

}  // namespace forerun
