// The engine's only loop: it admits requests, passes results to their strategies, work to the
// executor and tokens to the readers.
//
// From the end of a Step to the start of the next one, devices wait for this thread. So in between
// it only answers results with work; events for readers, statistics and the costs of rows wait
// until the next Step runs (Executor::set_meanwhile).
//
// If memory runs out (std::bad_alloc) on this thread, the requests being worked on fail, not the
// process.
//
// One thread. Iteration-level batching comes from the executor: the loop submits whatever work is
// ready before it asks for the next result. What the loop does for a result does not grow with the
// number of requests.
//
// Requests of higher priority are admitted first, and among equal priorities those that came first;
// none waits for ever (waiting_requests.h). Where a waiting request finds no place or no KV blocks,
// or a running one finds no more KV blocks, the running request of the least priority that has the
// fewest tokens is preempted: it loses the least work, and comes back before those that have not
// begun. A waiting request sets aside only requests of a lower priority.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/id_map.h"
#include "engine/info/trace_recorder.h"
#include "engine/loop/active_request.h"
#include "engine/loop/admission.h"
#include "engine/loop/auto_strategy.h"
#include "engine/loop/loop_waker.h"
#include "engine/loop/prefix_salts.h"
#include "engine/loop/waiting_requests.h"
#include "exec/batch_costs.h"
#include "exec/executor.h"
#include "strategies/acceptance.h"
#include "strategies/request_driver.h"

namespace forerun {

class EngineLoop {
 public:
  struct Options {
    int32_t max_active = 64;
    bool share_prefixes = true;
    bool draft_keeps_all = true;        // false: the draft keeps a window of each request's KV
    TraceRecorder* recorder = nullptr;  // null: turns are not traced
    const LiveCosts* costs = nullptr;   // null: strategies are told no costs while they run
    bool drafts_sequentially = true;    // a Step of the draft holds up the target
    // A request gains a level of priority each time it has waited this long; 0: never.
    Clock::duration priority_ageing{};
    LoadMeter* load = nullptr;                   // null: load is not metered
    AutoStrategy* automatic = nullptr;           // null: plans stay as they are resolved
    std::function<void()> on_thread_start = {};  // on the loop's thread, before all else
  };

  EngineLoop(Options options, std::unique_ptr<Executor> executor);
  // Cancels all requests and joins the thread.
  ~EngineLoop();

  void submit(std::unique_ptr<ActiveRequest> request);
  const std::shared_ptr<LoopWaker>& waker() const { return waker_; }
  // Blocks in use, target and draft. Where a model runs on a thread of its own, those of a request
  // that has ended return after the Step in flight.
  int64_t kv_blocks_in_use() const;
  KvLoad kv_load(Role role) const;

 private:
  // A request with its strategy; `sequence` changes when it is rebuilt.
  struct Running {
    std::unique_ptr<ActiveRequest> request;
    RequestDriver driver;
    SequenceId sequence = 0;
    std::optional<Admission::Claim> claim;  // while it waits, once it has come to the front
    Admission::Reservation reservation;
    Clock::duration waited{};  // before it was admitted, over all its admissions
    int32_t level = 0;         // its priority plus what waiting has added
    // How often it has been preempted for others since it last had a token.
    int32_t futile_preemptions = 0;
    int64_t tokens_at_start = 0;
    bool decodes = false;        // it has had a token since it was admitted
    int64_t tokens_counted = 0;  // where it decodes: the tokens that batch_costs_ counts for it
    uint64_t costs_version = 0;  // of the costs that its strategy has
    bool draft_is_out = false;   // a row of its draft was faulty: it runs without the draft model
  };

  // A request that has ended, whose reader is still to be told.
  struct Ended {
    Running running;
    FinishReason reason = FinishReason::kLength;
    Status error;
  };

  void run();
  void take_submissions();
  void end_cancelled_and_late();
  // Switches every running request for which `take_plan` returns true to its new plan.
  void change_plans(const std::function<bool(ActiveRequest&)>& take_plan);
  // For requests whose strategy the engine chooses: look_at_load() decides what suits the present
  // load, follow_load() switches the requests where that has changed.
  void look_at_load();
  void follow_load();
  // Handles submissions, cancellations, changes of speculation and deadlines. Visits all requests,
  // so it does that only where there is news or some time has passed.
  void look_outside();
  void admit();
  // The request to admit next; nothing where there is no place or not enough KV memory.
  std::optional<WaitingRequests<Running>::Next> next_that_fits();
  // Whether the KV blocks that `waits` needs are there.
  bool has_room(Running& waits, int32_t priority);
  bool shares_prefix(const ActiveRequest& request) const {
    return options_.share_prefixes && request.request().share_prefix && !request.wants_scores();
  }
  void start(Running running);
  // Makes a strategy by the request's plan and gives it the present costs of rows.
  std::unique_ptr<Strategy> make_strategy(Running& running);
  // Runs the turn in which the driver's strategy starts.
  RequestDriver::State start_strategy(Running& running);
  // Called once the driver is drained: starts the strategy of the request's plan.
  RequestDriver::State start_next_strategy(Running& running);
  void handle(WorkResult& result);
  // Where a row of the draft is faulty (RowResult::status), switches the request to a plan without
  // the draft model.
  RequestDriver::State leave_out_faulty_draft(Running& running, const WorkResult& result,
                                              RequestDriver::State state);
  void submit(const Running& running, WorkItem item);
  // Reports to the load meter the tokens since the last call.
  void report(Running& running) const;
  // Ends the request after its turn, or notes it for deliver(). `timer` is finished before a reader
  // can see either.
  void finish_turn(Running& running, RequestDriver::State state, TurnTimer timer = {});
  // Does what can wait until devices work: passes the events of the turns since the last call to
  // readers and the load meter, passes present costs to strategies and lets them prepare their next
  // turns. Throws nothing.
  void deliver();
  void tell_costs();
  // Drops the requests in unsent_.
  void drop_unsent();
  // The request found no KV blocks for its next rows: chooses which request gives its blocks back.
  void make_room(const Running& starved, const Status& status);
  // Whether any running request has a lower level than `priority`.
  bool outranks_one(int32_t priority) const;
  // Sets aside a running request of a lower level than `priority`, so that a waiting request gets
  // its place and blocks; false where there is none.
  bool give_way(int32_t priority);
  // Whether `first` is preempted rather than `second`.
  static bool loses_less(const Running& first, const Running& second);
  void preempt(SequenceId sequence);
  // Removes the request from the running ones and releases its KV.
  Running remove(SequenceId sequence);
  void count_in_batch(Running& running);
  // Closes the sequence in the executor; where host memory is short, waits for some.
  void close(SequenceId sequence);
  void report_running();
  // The process is out of memory: ends the requests that were being worked on, however far they
  // have come. Their destructors tell the readers.
  void drop_at_hand();
  void end(SequenceId sequence, FinishReason reason, Status error);

  const Options options_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<SharedAcceptance> shared_acceptance_;  // for all requests; loop's thread only
  std::shared_ptr<LoopWaker> waker_;

  std::mutex mutex_;  // guards submitted_ and stopping_
  std::deque<std::unique_ptr<ActiveRequest>> submitted_;
  bool stopping_ = false;

  // The loop's thread only.
  WaitingRequests<Running> waiting_;  // requests preempted return to the front of their class
  IdMap<Running> running_;
  PrefixSalts salts_;
  Admission admission_;
  BatchCosts batch_costs_;
  int64_t decoded_tokens_ = 0;       // sum over all requests so far
  int64_t automatic_sequences_ = 0;  // that decode by a plan that the engine has chosen
  bool load_has_changed_ = false;    // another plan now suits it
  uint64_t told_version_ = 0;        // version of batch_costs_ that all strategies have
  std::vector<SequenceId> turned_;   // had a turn since deliver(); may repeat, or have ended
  std::vector<SequenceId> unsent_;   // whose events found no memory; capacity for all that run
  std::vector<Ended> ended_;         // since deliver()
  SequenceId next_sequence_ = 1;
  // What is being worked on: one sequence, none, or, while Steps run, all running ones.
  static constexpr SequenceId kNone = 0;
  static constexpr SequenceId kAll = ~SequenceId{0};
  SequenceId at_hand_ = kNone;
  Clock::time_point turn_begin_{};                              // of the result at hand
  Clock::time_point next_deadline_ = Clock::time_point::max();  // no later than any request's
  Clock::time_point next_look_{};  // when to look for requests that lost their readers
  // Host memory ran out and no request has ended since, so none is admitted. So fewer requests run
  // until one of them can end, and none is restarted again and again.
  bool memory_is_short_ = false;
  // Turns left in which no further request is preempted for one that waits for blocks, since the
  // blocks of the last one return only after the Step in flight.
  int32_t turns_to_wait_ = 0;

  std::thread thread_;
};

}  // namespace forerun
