// Measures once, at start-up, what Steps cost on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exec/real_executor.h"
#include "forerun/status.h"
#include "step/step_costs.h"

namespace forerun {

// The longest context, in tokens, and the most rows of one sequence that Steps are measured with.
inline constexpr int32_t kMaxMeasuredContext = 4096;
inline constexpr int32_t kMaxMeasuredRows = 512;

using ProgressCallback = std::function<void(const std::string& what, double fraction)>;

// Times Steps of each role on scratch sequences over rows, context and sequences. Takes some thirty
// forwards of the target, fewer where one is slow; `on_progress` may be empty. Call before any
// sequence is open.
Result<StepCosts> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress);

// The costs as readable text, for one sequence at kReferenceContext.
std::string describe_costs(const StepCosts& costs);

}  // namespace forerun
