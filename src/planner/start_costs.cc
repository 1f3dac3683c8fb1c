#include "planner/start_costs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr double kBadMoment = 0.8;
// Several Steps, since the first ones read weights that have not been touched yet.
constexpr int32_t kChecks = 4;
// If a Step takes at least this many seconds, and about as long as expected, it is not repeated:
// what the first Step touches besides weights takes milliseconds, and four Steps would take a third
// of the time of opening an 8B file.
constexpr double kLongStep = 0.05;

// Returns whether plain Steps are now much faster than the cached costs.
Result<bool> are_faster_now(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                            const StepCosts& cached) {
  const int32_t context = std::clamp(max_context_tokens - 2, 0, kReferenceContext);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (role == Role::kDraft && !has_draft) continue;
    const double expected = cached.seconds(role, even_load(1, 1, context));
    for (int32_t check = 0; check < kChecks; ++check) {
      FORERUN_ASSIGN_OR_RETURN(const StepRecord record, executor.profile(role, 1, context));
      const double seconds = record.seconds + record.host_seconds;
      if (seconds < kBadMoment * expected) return true;
      if (seconds >= kLongStep && seconds * kBadMoment < expected) break;
    }
  }
  return false;
}

}  // namespace

Result<StartCosts> find_or_measure_costs(RealExecutor& executor, bool has_draft,
                                         int32_t max_context_tokens, const CostCache& cache,
                                         const CostKey& key, bool anew,
                                         const ProgressCallback& on_progress) {
  std::optional<StepCosts> cached = anew ? std::nullopt : cache.find(key);
  if (cached && cached->has(Role::kDraft) == has_draft) {
    FORERUN_ASSIGN_OR_RETURN(const bool faster,
                             are_faster_now(executor, has_draft, max_context_tokens, *cached));
    if (!faster) return StartCosts{std::move(*cached), /*from_cache=*/true};
  }
  FORERUN_ASSIGN_OR_RETURN(StepCosts costs,
                           measure_costs(executor, has_draft, max_context_tokens, on_progress));
  cache.keep(key, costs);
  return StartCosts{std::move(costs), /*from_cache=*/false};
}

}  // namespace forerun
