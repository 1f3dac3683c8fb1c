// The costs of Steps at an engine's start, measured by an earlier start or now.
#pragma once

#include <cstdint>

#include "exec/real_executor.h"
#include "forerun/status.h"
#include "planner/cost_cache.h"
#include "planner/measure_costs.h"
#include "step/step_costs.h"

namespace forerun {

struct StartCosts {
  StepCosts costs;
  bool from_cache = false;
};

// Returns the costs that `cache` has for `key`; with `anew`, or if the cache has none, measures the
// costs and keeps them. Other work on the machine makes Steps slower, never faster. So a few plain
// Steps are timed and compared with the cached costs: if one takes less than 0.8 of them, the
// machine was busy when the cache was filled, and it is filled again. If all take longer, the
// machine is busy now, and live Steps will correct the costs. Has the requirements and failures of
// measure_costs().
Result<StartCosts> find_or_measure_costs(RealExecutor& executor, bool has_draft,
                                         int32_t max_context_tokens, const CostCache& cache,
                                         const CostKey& key, bool anew,
                                         const ProgressCallback& on_progress);

}  // namespace forerun
