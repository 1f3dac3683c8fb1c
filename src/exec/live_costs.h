// The present costs of Steps, which schedulers and the engine read: measured or read from a cache
// at start-up, then corrected by every Step that runs.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "exec/step_record.h"
#include "step/step_costs.h"

namespace forerun {

// The context, in tokens, at which strategies are compared while there is no request: one at which
// a small model's attention is neither negligible nor dominant.
inline constexpr int32_t kReferenceContext = 256;

// Any thread may call any method.
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
  // Steps so far in which the draft read prompts, or text that it had not followed.
  int64_t draft_prompt_steps() const {
    const std::lock_guard lock(mutex_);
    return draft_prompt_steps_;
  }
  // Seconds of such a Step; 0 where nothing is known of the role.
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
  // Calls StepCosts::table().
  CostTable table(int32_t sequences = 1, int64_t context = 0) const {
    const std::lock_guard lock(mutex_);
    return costs_.table(sequences, context);
  }

 private:
  // Rows of a sequence in a Step of the draft that may all be drafted.
  static constexpr int32_t kMaxDraftedRows = 32;

  mutable std::mutex mutex_;
  StepCosts costs_;
  int64_t draft_prompt_steps_ = 0;
};

}  // namespace forerun
