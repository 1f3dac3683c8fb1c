// The engine's only loop: it admits requests and passes results to their strategies, work to the
// executor and tokens to the readers.
//
// From the end of a Step to the start of the next one, devices wait for this thread. So in that
// interval it only answers results with work; events for readers, statistics and the costs of rows
// wait until the next Step runs (Executor::set_meanwhile).
//
// If memory runs out (std::bad_alloc) on this thread, the affected requests fail, not the process.
//
// Thread rules: one thread. Iteration-level batching comes from the executor: the loop submits all
// available work before it asks for the next result. The loop's work per result does not grow with
// the number of requests.
//
// This file has the thread and the order of the work in a turn. The parts do not depend on it:
//   submissions.h         requests from other threads
//   cancellation_watch.h  which requests are cancelled or late
//   waiting_requests.h    in which order requests wait
//   sequence_specs.h      which blocks a request claims, and the spec of its sequence
//   kv_reservations.h     the KV blocks that are reserved for running requests
//   admission_policy.h    which waiting request is admitted next
//   running_requests.h    the running requests, with all that they hold
//   preemption.h          which of them gives up its place or its blocks
//   strategy_factory.h    their strategies
//   request_turns.h       how a result changes a request
//   decoding_batch.h      totals over the decoding requests
//   automatic_plans.h     which plans fit the load
//   event_delivery.h      events for readers
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "engine/info/trace_recorder.h"
#include "engine/loop/active_request.h"
#include "engine/loop/admission_policy.h"
#include "engine/loop/auto_strategy.h"
#include "engine/loop/automatic_plans.h"
#include "engine/loop/cancellation_watch.h"
#include "engine/loop/decoding_batch.h"
#include "engine/loop/event_delivery.h"
#include "engine/loop/loop_waker.h"
#include "engine/loop/preemption.h"
#include "engine/loop/request_turns.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "engine/loop/sequence_specs.h"
#include "engine/loop/strategy_factory.h"
#include "engine/loop/submissions.h"
#include "exec/executor.h"
#include "exec/live_costs.h"

namespace forerun {

class EngineLoop {
 public:
  struct Options {
    int32_t max_active = 64;
    bool share_prefixes = true;
    bool draft_keeps_all = true;        // false: the draft keeps a window of each request's KV
    TraceRecorder* recorder = nullptr;  // null: turns are not recorded
    const LiveCosts* costs = nullptr;   // null: running strategies receive no costs
    bool drafts_sequentially = true;    // a Step of the draft holds up the target
    // Waiting time after which a request gains a level of priority; 0: never.
    Clock::duration priority_ageing{};
    LoadMeter* load = nullptr;          // null: no metering of the load
    AutoStrategy* automatic = nullptr;  // null: plans stay as they are resolved
    // Called on the loop's thread before all other work.
    std::function<void()> on_thread_start = {};
    // Called on the loop's thread when no request runs or waits.
    std::function<void()> on_idle = {};
  };

  EngineLoop(Options options, std::unique_ptr<Executor> executor);
  // Cancels all requests and joins the thread.
  ~EngineLoop();

  void submit(std::unique_ptr<ActiveRequest> request);
  const std::shared_ptr<LoopWaker>& waker() const { return submissions_.waker(); }
  // Returns the number of blocks in use, target and draft together. If a model runs on a thread of
  // its own, the blocks of an ended request are free after the current Step.
  int64_t kv_blocks_in_use() const;
  KvLoad kv_load(Role role) const;

 private:
  void run();
  // Runs from one Step to the next: admits requests, then handles the results of a Step.
  void run_turns();
  void end_all();
  // Handles submissions, cancellations, changes of speculation and deadlines. Visits all requests,
  // but only if there is news or some time has passed.
  void look_outside();
  void take_submissions();
  void end_cancelled_and_late();
  // Switches every request for which `take_plan` returns true to its new plan.
  void change_plans(const std::function<bool(ActiveRequest&)>& take_plan);
  void admit();
  void start(ScheduledRequest admitted);
  void handle(WorkResult& result);
  // Ends the request after its turn, or notes it for deliver(). Finishes `timer` before a reader
  // can see either.
  void finish_turn(const ScheduledRequest& running, RequestDriver::State state,
                   TurnTimer timer = {});
  void end(SequenceId sequence, FinishReason reason, Status error);
  // Does the work that can wait until devices are busy: sends events to readers and reports to the
  // load meter, lets strategies prepare, and follows the load. Throws nothing.
  void deliver();
  // Handles a lack of memory: removes the requests of at_hand_, whatever their state, and those
  // with events that could not be sent. Their destructors notify the readers.
  void drop_at_hand();

  const Options options_;
  std::unique_ptr<Executor> executor_;
  Submissions submissions_;

  // Used by the loop's thread only.
  WaitingQueue waiting_;
  DecodingBatch batch_;
  RunningRequests running_;
  SequenceSpecs specs_;
  Preemption preemption_;
  AdmissionPolicy admission_;
  AutomaticPlans automatic_;
  StrategyFactory strategies_;
  RequestTurns turns_;
  EventDelivery events_;
  CancellationWatch cancellations_;
  // The request being handled: one sequence, none, or all running ones while Steps run.
  static constexpr SequenceId kNone = 0;
  static constexpr SequenceId kAll = ~SequenceId{0};
  SequenceId at_hand_ = kNone;
  Clock::time_point turn_begin_{};  // start of the turn of the current result

  std::thread thread_;
};

}  // namespace forerun
