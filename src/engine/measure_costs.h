// What Steps cost on this machine, measured once at start-up.
#pragma once

#include <functional>
#include <string>

#include "exec/emulated/step_profile.h"
#include "exec/real_executor.h"
#include "forerun/status.h"
#include "planner/cost_model.h"
#include "step/cost_table.h"

namespace forerun {

using ProgressCallback = std::function<void(const std::string& what, double fraction)>;

// Times Steps of a few row counts of each role on a scratch sequence and fits the cost model to
// them. Takes about twenty forwards of the target, fewer where one is slow; `on_progress` may be
// empty. Call before any sequence is open.
Result<CostModel> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress);

// The same from a profile, for an emulated machine.
CostModel costs_of(const StepProfile& profile);

// The table as people read it.
std::string describe_costs(const CostTable& costs, bool has_draft);

}  // namespace forerun
