// The KV views that the target may draft through if the engine chooses the strategy
// (engine/loop/auto_strategy.h), and the acceptance assumed for each before any measurement.
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

// Returns the options of a request that drafts through the candidate's view, with `gamma` guesses
// per round.
SpeculationOptions self_options(const SpeculationCandidate& candidate, int32_t gamma);

// Returns every view and budget that `resolve` accepts and that has a published acceptance rate.
// `kv_reads_per_selection` is the target Decoder's.
std::vector<SpeculationCandidate> view_candidates(const ModelFacts& models,
                                                  double kv_reads_per_selection,
                                                  const ResolvePlan& resolve);

}  // namespace forerun
