// The only loop: admits requests, feeds their strategies, hands their work to the executor and
// their tokens to their readers.
//
// One thread. Iteration-level batching comes from the executor: the loop submits whatever work is
// ready before it asks for the next result.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/active_request.h"
#include "engine/trace_recorder.h"
#include "exec/executor.h"
#include "strategies/acceptance.h"
#include "strategies/request_driver.h"

namespace forerun {

// What Steps cost now, as Strategy::on_costs() takes it. Called on the loop's thread.
using CostSource = std::function<CostTable()>;

// Wakes the loop; shared with streams, which may outlive the engine.
class LoopWaker {
 public:
  void wake();
  // Waits until wake() was called since the last wait.
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

class EngineLoop {
 public:
  struct Options {
    int32_t max_active = 64;
    bool share_prefixes = true;
    TraceRecorder* recorder = nullptr;  // null: turns are not traced
  };

  EngineLoop(Options options, std::unique_ptr<Executor> executor, CostSource costs);
  // Cancels everything and joins the thread.
  ~EngineLoop();

  void submit(std::unique_ptr<ActiveRequest> request);
  const std::shared_ptr<LoopWaker>& waker() const { return waker_; }
  // Blocks in use, target and draft. Where a model runs on a thread of its own, those of a request
  // that has ended return after the Step in flight.
  int64_t kv_blocks_in_use() const;

 private:
  // A request with its strategy; `sequence` changes when it is rebuilt.
  struct Running {
    std::unique_ptr<ActiveRequest> request;
    RequestDriver driver;
    SequenceId sequence = 0;
    uint64_t closings = 0;  // closings_ when its last work was submitted
    // Blocks that its text will take, by role, until a result says that the role has read it.
    std::array<int64_t, kNumRoles> promised_blocks{};
  };

  void run();
  void take_submissions();
  void end_cancelled_and_late();
  void admit();
  bool has_room_for(const ActiveRequest& request) const;
  int64_t free_blocks(Role role) const;  // neither in use nor promised
  // That the request's text will take, beside those that it shares with one that runs.
  int64_t blocks_to_take(const ActiveRequest& request) const;
  bool shares_prefix(const ActiveRequest& request) const {
    return options_.share_prefixes && request.request().share_prefix;
  }
  void start(Running running);
  void handle(const WorkResult& result);
  // What follows a turn: the request is ended, or its reader woken. `timer` is finished before a
  // reader could see either.
  void finish_turn(Running& running, RequestDriver::State state, TurnTimer timer = {});
  void handle_failure(Running& running, const Status& status);
  void close(SequenceId sequence);
  void end(SequenceId sequence, FinishReason reason, Status error);

  const Options options_;
  std::unique_ptr<Executor> executor_;
  CostSource costs_;
  std::shared_ptr<SharedAcceptance> shared_acceptance_;  // of all requests; the loop's thread only
  std::shared_ptr<LoopWaker> waker_;

  std::mutex mutex_;  // guards submitted_ and stopping_
  std::deque<std::unique_ptr<ActiveRequest>> submitted_;
  bool stopping_ = false;

  // The loop's thread only.
  std::deque<Running> waiting_;  // front first; preempted ones come back to the front
  std::map<SequenceId, Running> running_;
  SequenceId next_sequence_ = 1;
  uint64_t closings_ = 0;  // of sequences so far
  // Memory ran out and nobody has ended since: nobody is admitted. So those that run get fewer
  // until one can end, and none starts over again and again.
  bool memory_is_short_ = false;

  std::thread thread_;
};

}  // namespace forerun
