#include "engine/loop/strategy_factory.h"

#include <utility>

#include "strategies/speculation_plan.h"

namespace forerun {

CostTable StrategyFactory::costs_for(const ActiveRequest& request, CostTable costs) const {
  costs.informs = request.plan().automatic;
  if (costs.informs) costs.sources = sources_;
  return costs;
}

std::unique_ptr<Strategy> StrategyFactory::make(ScheduledRequest& running) const {
  const ActiveRequest& request = *running.request;
  running.costs_version = batch_->costs().version();
  const StrategyParts parts = {.shared = acceptance_,
                               .costs = costs_for(request, batch_->costs().for_newcomer()),
                               .record_rounds = request.request().record_rounds || records_rounds_};
  return running.draft_is_out ? without_draft_model(request.plan()).make_strategy(parts)
                              : request.plan().make_strategy(parts);
}

void StrategyFactory::tell_costs(const RunningRequests& running, GuessSources sources) {
  batch_->refresh_costs();
  const BatchCosts& costs = batch_->costs();
  const bool are_others = std::exchange(sources_, sources) != sources;
  if (costs.version() == told_version_ && !are_others) return;
  for (const auto [sequence, each] : running) {
    const bool has_others = are_others && each.request->plan().automatic;
    if (each.costs_version == costs.version() && !has_others) continue;
    if (costs.version() == 0) continue;
    each.costs_version = costs.version();
    each.driver.on_costs(costs_for(*each.request, costs.table()));
  }
  told_version_ = costs.version();
}

}  // namespace forerun
