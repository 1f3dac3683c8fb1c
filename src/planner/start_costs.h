// What Steps cost when an engine starts: as an earlier start has measured it, or measured now.
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

// Takes what `cache` has for `key` unless `anew`, and measures and keeps it otherwise. What else
// the machine does makes Steps slower, never faster: so a few plain Steps are timed beside what the
// cache tells, and where one takes less than 0.8 of it, the cache was filled in a bad moment and is
// filled again. Where all take more, the moment is bad now, which live Steps will tell. Fails and
// needs what measure_costs() does.
Result<StartCosts> find_or_measure_costs(RealExecutor& executor, bool has_draft,
                                         int32_t max_context_tokens, const CostCache& cache,
                                         const CostKey& key, bool anew,
                                         const ProgressCallback& on_progress);

}  // namespace forerun
