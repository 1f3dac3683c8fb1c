// Keeps a launch running, and its requests whatever becomes of it: starts it, hands requests to it
// and what comes of them to their readers, and when it is lost starts another, in which they go on
// from their tokens.
//
// Threads: one of its own, which does all of that; all methods from any thread. Calls that wait do
// so until the launch answers or is lost, which its silence bounds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "forerun/engine.h"
#include "supervisor/launch_link.h"
#include "supervisor/relaunch_policy.h"
#include "supervisor/supervised_request.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class LaunchKeeper : public std::enable_shared_from_this<LaunchKeeper> {
 public:
  static std::shared_ptr<LaunchKeeper> start(SupervisorOptions options);
  ~LaunchKeeper();

  // The first launch's engine, once it is there; on_progress is called from this thread. Not ok:
  // why there is none; kCancelled where the options say so.
  Result<EngineInfo> wait_until_ready();

  // `request` as SupervisedRequest takes it. While a launch is being replaced it waits for the next
  // one. Refused with the launch's own words, with kOverloaded, or, once launches are given up,
  // with why.
  Result<std::shared_ptr<RequestChannel>> submit(Request request, std::shared_ptr<EventQueue> queue,
                                                 uint64_t tag);
  // The latest that the launch has said of itself.
  EngineState state() const;
  // Ends the launch, and requests as cancelled.
  void stop();

 private:
  enum class Phase : uint8_t { kStarting, kReady, kGivenUp };
  struct Entry {
    std::shared_ptr<SupervisedRequest> request;
    std::shared_ptr<EventQueue> queue;  // until it is connected
    uint64_t tag = 0;
    std::vector<uint64_t> parts;  // their ids in this launch
    int launches = 0;
    bool cancel_sent = false;
    bool is_fresh = false;  // this launch has it, and no token of it has come
    int deaths = 0;         // launches in a row that were lost in that state
  };
  struct Part {
    uint64_t request = 0;
    int32_t sample = -1;
  };
  enum class CallState : uint8_t { kAsked, kAnswered, kLost };
  struct Call {
    CallState state = CallState::kAsked;
    uint64_t connects = 0;  // a request that is accepted by a good answer; 0: none
    Status status;
  };

  explicit LaunchKeeper(SupervisorOptions options);
  // The thread's, in the order of a launch's life; without the lock.
  void run();
  LaunchFailure serve(LaunchLink& link);
  std::optional<LaunchFailure> handle(UpMessage&& message);
  LaunchFailure failure_of(const Status& status) const;
  void note_loss(const LaunchFailure& failure, bool is_final);
  bool has_trial() const;
  void drop_draft();
  void give_up(const Status& why);
  void rest(std::chrono::milliseconds pause);

  // All below under the lock.
  std::optional<LaunchFailure> take_event(UpMessage&& message);
  void be_ready(EngineInfo&& info);
  void hand_over(uint64_t id, Entry& entry);
  // Those that launches have died with go on one at a time, when all others have got further.
  void hand_over_suspect();
  // Counts a launch that is lost against the requests that it had not got further with, and fails
  // those that it is enough for.
  void doubt_requests(const LaunchFailure& failure);
  void connect(uint64_t id, Entry& entry);
  // Those that are cancelled, and, while there is no launch to do it, those that are late.
  void look_after_requests();
  void answer(uint64_t call, const Status& status);
  void cancel_parts(const Entry& entry);
  void erase(uint64_t id);
  int64_t num_samples() const;
  // Asks the launch and waits for its answer.
  Call call(std::unique_lock<std::mutex>& lock, DownMessage message, uint64_t connects);
  // Takes the lock.
  Status change_speculation(uint64_t id, const SpeculationOptions& options);

  SupervisorOptions options_;
  const std::shared_ptr<WakeDescriptor> waker_;
  RelaunchPolicy policy_;  // the thread's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kStarting;
  Status given_up_;
  bool stopping_ = false;
  bool was_ready_ = false;
  bool has_dropped_draft_ = false;
  EngineInfo info_;
  EngineState state_;
  std::optional<std::pair<std::string, double>> progress_;
  uint64_t last_id_ = 0;  // of requests, parts and calls
  std::map<uint64_t, Entry> requests_;
  std::map<uint64_t, Part> parts_;
  std::map<uint64_t, Call> calls_;
  std::vector<DownMessage> outbox_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace forerun
