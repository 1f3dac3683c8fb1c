// The views of its KV that the target may draft with while the engine chooses
// (engine/auto_strategy.h), and what is assumed of each until its guesses have been seen.
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

// Of a request whose target drafts through the candidate's view, `gamma` guesses a round.
SpeculationOptions self_options(const SpeculationCandidate& candidate, int32_t gamma);

// Every view and budget that `resolve` takes and of which it is published how often they are right.
// `readings_a_choice`: as Decoder's, of the target.
std::vector<SpeculationCandidate> view_candidates(const ModelFacts& models,
                                                  double readings_a_choice,
                                                  const ResolvePlan& resolve);

}  // namespace forerun
