#include "engine/loop/strategy_factory.h"

#include "strategies/speculation_plan.h"

namespace forerun {

std::unique_ptr<Strategy> StrategyFactory::make(ScheduledRequest& running) const {
  const ActiveRequest& request = *running.request;
  running.costs_version = batch_->costs().version();
  const StrategyParts parts = {.shared = acceptance_,
                               .costs = batch_->costs().for_newcomer(),
                               .record_rounds = request.request().record_rounds || records_rounds_};
  return running.draft_is_out ? without_draft_model(request.plan()).make_strategy(parts)
                              : request.plan().make_strategy(parts);
}

void StrategyFactory::tell_costs(const RunningRequests& running) {
  batch_->refresh_costs();
  const BatchCosts& costs = batch_->costs();
  if (costs.version() == told_version_) return;
  for (const auto [sequence, each] : running) {
    if (each.costs_version == costs.version()) continue;
    each.costs_version = costs.version();
    each.driver.on_costs(costs.table());
  }
  told_version_ = costs.version();
}

}  // namespace forerun
