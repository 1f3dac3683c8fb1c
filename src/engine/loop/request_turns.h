// Runs the turns of requests: starts their strategies, and passes results to the strategies, work
// to the executor and tokens to the request.
//
// `now` is the start of the turn, which is the time at which its tokens count as emitted. Each turn
// returns the resulting state of the request's driver. After kOver or kFailed the request no longer
// runs, and the caller must end it: with the request's reason after kOver, with
// RequestDriver::error() after kFailed. kDrained is never returned: such a request gets its new
// strategy in the same turn.
//
// Thread rules: one thread.
#pragma once

#include "engine/info/load_meter.h"
#include "engine/info/trace_recorder.h"
#include "engine/loop/active_request.h"
#include "engine/loop/automatic_plans.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "engine/loop/strategy_factory.h"
#include "exec/executor.h"
#include "step/work.h"
#include "strategies/request_driver.h"

namespace forerun {

class RequestTurns {
 public:
  // `load` may be null; the objects must outlive this object.
  RequestTurns(Executor* executor, RunningRequests* running, StrategyFactory* strategies,
               AutomaticPlans* automatic, LoadMeter* load)
      : executor_(executor),
        running_(running),
        strategies_(strategies),
        automatic_(automatic),
        load_(load) {}

  // Runs the turn in which the driver's strategy starts. The request's sequence must be open.
  RequestDriver::State start(ScheduledRequest& running, Clock::time_point now);
  // Does the same with a new strategy by the request's plan, once the driver is drained.
  RequestDriver::State change_strategy(ScheduledRequest& running, Clock::time_point now);
  // Runs the turn of a result. `timer` notes the strategy's output.
  RequestDriver::State take(ScheduledRequest& running, WorkResult& result, TurnTimer& timer,
                            Clock::time_point now);

 private:
  void submit(const ScheduledRequest& running, WorkItem item);
  // If a row of the draft is faulty (RowResult::status), switches the request to a plan without the
  // draft model. Returns the state after that.
  static RequestDriver::State leave_out_faulty_draft(ScheduledRequest& running,
                                                     const WorkResult& result,
                                                     RequestDriver::State state);

  Executor* const executor_;
  RunningRequests* const running_;
  StrategyFactory* const strategies_;
  AutomaticPlans* const automatic_;
  LoadMeter* const load_;
};

}  // namespace forerun
