// The only loop: admits requests, feeds their strategies, hands their work to the executor and
// their tokens to their readers.
//
// From the end of a Step to the start of the next one, devices wait for this thread. So between
// them it only answers results with work; what readers are told, statistics and the costs of rows
// wait for the next Step to run (Executor::set_meanwhile).
//
// Memory that runs out (std::bad_alloc) on this thread costs the requests at hand, not the process.
//
// One thread. Iteration-level batching comes from the executor: the loop submits whatever work is
// ready before it asks for the next result. What the loop does for a result does not grow with the
// number of requests.
//
// Requests of higher priority are admitted first, of equal priority those that came first; none
// waits for ever (waiting_requests.h). Where a waiting request finds no place or no KV blocks, or a
// running one finds no more KV blocks, the running request of the least priority that has the
// fewest tokens is set aside: it loses the least work, and comes back before those that have not
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
#include "engine/active_request.h"
#include "engine/admission.h"
#include "engine/auto_strategy.h"
#include "engine/loop_waker.h"
#include "engine/prefix_salts.h"
#include "engine/trace_recorder.h"
#include "engine/waiting_requests.h"
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
    bool draft_keeps_all = true;        // else a window of each request's KV
    TraceRecorder* recorder = nullptr;  // null: turns are not traced
    const LiveCosts* costs = nullptr;   // null: strategies are told no costs while they run
    bool drafts_sequentially = true;    // a Step of the draft holds up the target
    // A request gains a level of priority each time it has waited this long; 0: never.
    Clock::duration priority_ageing{};
    LoadMeter* load = nullptr;                   // null: nobody asks
    AutoStrategy* automatic = nullptr;           // null: plans stay as they are resolved
    std::function<void()> on_thread_start = {};  // on the loop's thread, before all else
  };

  EngineLoop(Options options, std::unique_ptr<Executor> executor);
  // Cancels everything and joins the thread.
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
    Admission::Promise promise;
    Clock::duration waited{};  // before it was admitted, over all its admissions
    int32_t level = 0;         // its priority plus what waiting has added
    // How often it has been set aside for others since it last had a token.
    int32_t set_aside_in_vain = 0;
    int64_t tokens_at_start = 0;
    bool decodes = false;        // it has had a token since
    int64_t tokens_counted = 0;  // where it does: as many as batch_costs_ knows of
    uint64_t costs_version = 0;  // that its strategy was told
    bool draft_is_out = false;  // a row of its draft was faulty: it goes on without the draft model
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
  // Those that `take_plan` gives another plan, as it says, go on by it.
  void change_plans(const std::function<bool(ActiveRequest&)>& take_plan);
  // Requests of which the engine chooses the strategy: what suits the present load, and its change.
  void look_at_load();
  void follow_load();
  // Submissions, cancellations, changes and deadlines. Of all requests, so only where there is
  // something to see, or some time has passed.
  void look_outside();
  void admit();
  // The request to admit next; nothing where there is no place, or not enough memory.
  std::optional<WaitingRequests<Running>::Next> next_that_fits();
  // Whether the KV blocks that `waits` needs are there.
  bool has_room(Running& waits, int32_t priority);
  bool shares_prefix(const ActiveRequest& request) const {
    return options_.share_prefixes && request.request().share_prefix && !request.wants_scores();
  }
  void start(Running running);
  // A strategy by the request's plan, told what a row costs at present.
  std::unique_ptr<Strategy> make_strategy(Running& running);
  // The turn in which the driver's strategy starts.
  RequestDriver::State start_strategy(Running& running);
  // The driver is drained: the plan's strategy goes on.
  RequestDriver::State start_next_strategy(Running& running);
  void handle(WorkResult& result);
  // Where a row of the draft is faulty (RowResult::status), lets the request go on without the
  // draft model.
  RequestDriver::State leave_out_faulty_draft(Running& running, const WorkResult& result,
                                              RequestDriver::State state);
  void submit(const Running& running, WorkItem item);
  // Tells the load meter what has come since the last call.
  void report(Running& running) const;
  // What follows a turn: the request is ended, or noted for deliver(). `timer` is finished before a
  // reader could see either.
  void finish_turn(Running& running, RequestDriver::State state, TurnTimer timer = {});
  // What can wait until devices work: tells readers and the load meter of the turns since the last
  // call, and strategies what rows cost now, which prepare their next ones. Throws nothing.
  void deliver();
  void tell_costs();
  // Those of unsent_.
  void drop_unsent();
  // The request found no KV blocks for its next rows: somebody gives some back.
  void make_room(const Running& starved, const Status& status);
  // Whether any running request has a lower level than `priority`.
  bool outranks_one(int32_t priority) const;
  // Sets aside a running request of a lower level than `priority`, whose place and blocks then go
  // to a waiting one; false where there is none to set aside.
  bool give_way(int32_t priority);
  // Whether `first` is set aside before `second`.
  static bool loses_less(const Running& first, const Running& second);
  void set_aside(SequenceId sequence);
  // Takes it out of the running ones, its KV with it.
  Running remove(SequenceId sequence);
  void count_in_batch(Running& running);
  // Tells the executor; where there is no memory for that, waits for some.
  void close(SequenceId sequence);
  void report_running();
  // The process is out of memory: ends what was at hand when that was found, however far it had
  // come. Its destructor tells its reader.
  void drop_at_hand();
  void end(SequenceId sequence, FinishReason reason, Status error);

  const Options options_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<SharedAcceptance> shared_acceptance_;  // of all requests; the loop's thread only
  std::shared_ptr<LoopWaker> waker_;

  std::mutex mutex_;  // guards submitted_ and stopping_
  std::deque<std::unique_ptr<ActiveRequest>> submitted_;
  bool stopping_ = false;

  // The loop's thread only.
  WaitingRequests<Running> waiting_;  // those set aside come back to the front of their class
  IdMap<Running> running_;
  PrefixSalts salts_;
  Admission admission_;
  BatchCosts batch_costs_;
  int64_t decoded_tokens_ = 0;       // of all requests so far
  int64_t automatic_sequences_ = 0;  // that decode, by a plan of the engine's choice
  bool load_has_changed_ = false;    // so that another plan suits it
  uint64_t told_version_ = 0;        // of its costs, that all strategies know
  std::vector<SequenceId> turned_;   // since deliver(); some may be there twice, or run no more
  std::vector<SequenceId> unsent_;   // that had no memory for it; has room for as many
  std::vector<Ended> ended_;         // since deliver()
  SequenceId next_sequence_ = 1;
  // What is being worked on: a sequence, none, or, while Steps are run, all that run.
  static constexpr SequenceId kNone = 0;
  static constexpr SequenceId kAll = ~SequenceId{0};
  SequenceId at_hand_ = kNone;
  Clock::time_point turn_begin_{};                              // of the result at hand
  Clock::time_point next_deadline_ = Clock::time_point::max();  // of all requests, or earlier
  Clock::time_point next_look_{};  // for requests whose readers have gone without a word
  // Memory ran out and nobody has ended since: nobody is admitted. So those that run get fewer
  // until one can end, and none starts over again and again.
  bool memory_is_short_ = false;
  // Turns in which no further request is set aside for one that waits for blocks: the blocks of the
  // last one return only after the Step in flight.
  int32_t turns_to_wait_ = 0;

  std::thread thread_;
};

}  // namespace forerun
