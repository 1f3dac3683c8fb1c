// The present costs of Steps for schedulers and the engine: measured or read from a cache at
// start-up, then corrected by every Step that runs.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "exec/step_record.h"
#include "step/step_costs.h"

namespace forerun {

// The context, in tokens, for comparing strategies while there is no request: a small model's
// attention is neither negligible nor dominant there.
inline constexpr int32_t kReferenceContext = 256;

// The costs behind a lock: any thread may call any method.
class LiveCosts {
 public:
  void set(StepCosts costs) {
    const std::lock_guard lock(mutex_);
    costs_ = std::move(costs);
  }
  void observe(const StepRecord& record) {
    if (record.overlaps) return;
    const std::lock_guard lock(mutex_);
    draft_prompt_steps_ +=
        record.role == Role::kDraft && record.rows > kMaxDraftedRows * record.sequences;
    costs_.observe(record.role, record.load(), record.seconds + record.host_seconds);
  }
  // Returns the number of Steps so far in which the draft read prompts or other tokens that it had
  // not followed.
  int64_t draft_prompt_steps() const {
    const std::lock_guard lock(mutex_);
    return draft_prompt_steps_;
  }
  // Returns the seconds of such a Step, or 0 if the role has no measurements.
  double seconds(Role role, const StepLoad& load) const {
    const std::lock_guard lock(mutex_);
    return costs_.has(role) ? costs_.seconds(role, load) : 0.0;
  }
  // Calls `reader` with the costs, which do not change meanwhile. `reader` must not call this
  // object.
  template <typename Reader>
  void read(const Reader& reader) const {
    const std::lock_guard lock(mutex_);
    reader(costs_);
  }
  // Returns StepCosts::table().
  CostTable table(int32_t sequences = 1, int64_t context = 0) const {
    const std::lock_guard lock(mutex_);
    return costs_.table(sequences, context);
  }

 private:
  // A draft Step with more rows per sequence than this is reading a prompt, not drafting.
  static constexpr int32_t kMaxDraftedRows = 32;

  mutable std::mutex mutex_;
  StepCosts costs_;
  int64_t draft_prompt_steps_ = 0;
};

}  // namespace forerun
