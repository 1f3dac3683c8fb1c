// Keeps the plans of those requests whose strategy the engine chooses in line with the load
// (AutoStrategy). Readers that ask for a strategy of their own keep it.
//
// One thread.
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
  // objects must outlive this one.
  AutomaticPlans(AutoStrategy* choice, const LiveCosts* costs, const Executor* executor)
      : choice_(choice), costs_(costs), executor_(executor) {}

  // Gives a request that has just come the present plan, if the engine chooses for it.
  void begin(ActiveRequest& request) const;
  // Gives a request the present plan, if the engine chooses for it. Returns whether that is another
  // plan than it had.
  bool follow(ActiveRequest& request) const;
  // Takes the outcome of one verification by `plan`: `result` is the target's or the draft's,
  // `out` what the strategy made of it.
  void observe(const SpeculationPlan& plan, const WorkResult& result, const StrategyOutput& out);
  // Decides what suits the present load; call it about once a Step. `acceptance`: what requests
  // expect of their rounds.
  void look(const DecodingBatch& batch, const SharedAcceptance& acceptance);
  // The sources from which requests take guesses if the engine chooses their strategy.
  GuessSources sources() const { return choice_ != nullptr ? choice_->sources() : GuessSources{}; }
  // Whether the present plan has changed since the last call.
  bool take_change() { return std::exchange(has_changed_, false); }

 private:
  AutoStrategy* const choice_;
  const LiveCosts* const costs_;
  const Executor* const executor_;
  int64_t draft_prompt_steps_ = 0;  // their number at the last look
  bool has_changed_ = false;
};

}  // namespace forerun
