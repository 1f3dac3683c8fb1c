// The KV views that the target may draft through where the engine chooses the strategy
// (engine/loop/auto_strategy.h), and the acceptance assumed of each until its guesses have been
// seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "forerun/speculation_options.h"
#include "forerun/status.h"
#include "planner/rank_speculation.h"
#include "strategies/speculation_plan.h"

namespace forerun {

using ResolvePlan =
    std::function<Result<std::shared_ptr<const SpeculationPlan>>(const SpeculationOptions&)>;

// Options of a request whose target drafts through the candidate's view, `gamma` guesses a round.
SpeculationOptions self_options(const SpeculationCandidate& candidate, int32_t gamma);

// Every view and budget that `resolve` accepts and whose acceptance rate is published.
// `kv_reads_per_selection`: the target Decoder's.
std::vector<SpeculationCandidate> view_candidates(const ModelFacts& models,
                                                  double kv_reads_per_selection,
                                                  const ResolvePlan& resolve);

}  // namespace forerun
