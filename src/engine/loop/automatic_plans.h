// Keeps the plans of requests that leave their strategy to the engine up to date with the load
// (AutoStrategy). Requests with a strategy of their own keep it.
//
// Thread rules: one thread.
#pragma once

#include <utility>

#include "engine/loop/active_request.h"
#include "engine/loop/auto_strategy.h"
#include "engine/loop/decoding_batch.h"
#include "exec/executor.h"
#include "exec/live_costs.h"
#include "step/work.h"
#include "strategies/acceptance.h"
#include "strategies/strategy.h"

namespace forerun {

class AutomaticPlans {
 public:
  // `choice` null: plans stay as they are resolved. `costs` null: plans do not follow the load. The
  // objects must outlive this object.
  AutomaticPlans(AutoStrategy* choice, const LiveCosts* costs, const Executor* executor)
      : choice_(choice), costs_(costs), executor_(executor) {}

  // Gives a new request the present plan, if the engine chooses for it.
  void begin(ActiveRequest& request) const;
  // Gives a request the present plan, if the engine chooses for it. Returns whether its plan has
  // changed.
  bool follow(ActiveRequest& request) const;
  // Takes the outcome of one verification by `plan`: `result` is the target's or the draft's, and
  // `out` is the strategy's output for it.
  void observe(const SpeculationPlan& plan, const WorkResult& result, const StrategyOutput& out);
  // Chooses the plan for the present load; call it about once a Step. `acceptance` has the
  // requests' expected acceptance.
  void look(const DecodingBatch& batch, const SharedAcceptance& acceptance);
  // Returns the draft sources of requests that leave their strategy to the engine.
  GuessSources sources() const { return choice_ != nullptr ? choice_->sources() : GuessSources{}; }
  // Returns whether the present plan has changed since the last call.
  bool take_change() { return std::exchange(has_changed_, false); }

 private:
  AutoStrategy* const choice_;
  const LiveCosts* const costs_;
  const Executor* const executor_;
  int64_t draft_prompt_steps_ = 0;  // value at the last look
  bool has_changed_ = false;
};

}  // namespace forerun
