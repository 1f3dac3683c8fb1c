// Measures the costs of Steps on this machine, once, at start-up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exec/real_executor.h"
#include "forerun/status.h"
#include "step/step_costs.h"

namespace forerun {

// The longest context, in tokens, and the largest number of rows of one sequence in measured Steps.
inline constexpr int32_t kMaxMeasuredContext = 4096;
inline constexpr int32_t kMaxMeasuredRows = 512;

using ProgressCallback = std::function<void(const std::string& what, double fraction)>;

// Times Steps of each role on temporary sequences over rows, context and sequences. Takes about
// thirty forward passes of the target, fewer if one is slow; `on_progress` may be empty. Call it
// before any sequence is open.
Result<StepCosts> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress);

// Returns the costs as readable text, for one sequence at kReferenceContext.
std::string describe_costs(const StepCosts& costs);

}  // namespace forerun
