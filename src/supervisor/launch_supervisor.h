// Keeps a launch running and its requests alive: it starts the launch, hands requests to it and
// their events to their readers. When the launch is lost, it starts another one, in which the
// requests continue from their tokens.
//
// Threads: a thread of the supervisor does this work; all methods may be called from any thread.
// submit() waits at most a second for the launch's answer. Other calls wait until the launch
// answers or is lost, at most for the longest silence.
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
#include "supervisor/host_questions.h"
#include "supervisor/launch_link.h"
#include "supervisor/relaunch_policy.h"
#include "supervisor/supervised_request.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class LaunchSupervisor : public std::enable_shared_from_this<LaunchSupervisor> {
 public:
  static std::shared_ptr<LaunchSupervisor> start(SupervisorOptions options);
  ~LaunchSupervisor();

  // Waits for the engine of the first launch; calls on_progress on the calling thread. Fails with
  // the reason why there is no engine; with kCancelled if SupervisorOptions::is_cancelled says so.
  Result<EngineInfo> wait_until_ready();

  // Submits a request as SupervisedRequest requires it. While a launch is being replaced, the
  // request waits for the next one. Fails with the launch's own refusal, with kOverloaded or, once
  // the supervisor has given up launches, with the reason for that.
  Result<std::shared_ptr<RequestChannel>> submit(Request request, std::shared_ptr<EventQueue> queue,
                                                 uint64_t tag);
  // Asks the launch for Engine::prepare_format(); returns true if there is no launch.
  bool prepare_format(const OutputFormat& format, bool quick);
  // The latest state that the launch has reported, and whether there is a launch.
  EngineState state() const;
  // Ends the launch; its requests end as cancelled.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase : uint8_t { kStarting, kReady, kGivenUp };
  struct Entry {
    std::shared_ptr<SupervisedRequest> request;
    std::shared_ptr<EventQueue> queue;  // until it is connected
    uint64_t tag = 0;
    std::vector<uint64_t> parts;  // their ids in this launch
    int launches = 0;
    bool cancel_sent = false;
    bool is_fresh = false;    // this launch has the request, and no token of it has come
    bool died_fresh = false;  // is_fresh when the launch was lost
    int deaths = 0;           // launches in a row that died while is_fresh
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
    bool result = true;
  };

  explicit LaunchSupervisor(SupervisorOptions options);
  // The functions of the supervisor's thread, in the order of a launch's life. Called without the
  // lock.
  void run();
  // Runs one launch, from its start to its end. Returns nothing if it ends to be replaced by a
  // launch with the draft, or because the supervisor stops. Sets `is_worth_another` to false if the
  // launch has never run and has given a reason.
  std::optional<LaunchFailure> run_launch(bool& is_worth_another);
  // Whether a request may have caused the failure.
  bool is_death(const LaunchFailure& failure) const;
  // The options of the next launch.
  EngineOptions next_engine();
  // Serves requests until the launch is lost. Returns nothing if the launch is to end because the
  // supervisor stops or the draft is to come back.
  std::optional<LaunchFailure> serve(LaunchLink& link);
  std::optional<LaunchFailure> handle(UpMessage&& message);
  LaunchFailure failure_of(const UpMessage& message) const;
  void note_loss(const Status& why);
  bool has_trial() const;
  bool is_stopping() const;
  // Waits until another launch may be started. Returns false if none will be started.
  bool prepare_another(LaunchFailure& failure);
  void give_up(const Status& why);
  // Waits for `duration` and looks after requests meanwhile; returns early where the supervisor
  // stops.
  void pause(std::chrono::milliseconds duration);
  // Asks all hosts once; returns whether all have answered.
  bool ask_hosts();
  // Asks again and again until all hosts answer or the supervisor stops.
  void wait_for_hosts();
  // Asks hosts once half of the launch's time to start has gone, so that the error can name those
  // that do not answer.
  void ask_while_starting(const LaunchLink& link, Clock::time_point begun);
  void name_silent_hosts(LaunchFailure& failure);

  // All functions below are called under the lock.
  std::optional<LaunchFailure> take_event(UpMessage&& message);
  void be_ready(EngineInfo&& info);
  void hand_over(uint64_t id, Entry& entry);
  // Hands over one suspect: requests with which launches have died continue one at a time, after
  // all other requests have made progress.
  void hand_over_suspect();
  // Counts the death of a launch against the requests that had got no token from it, and fails
  // those that have reached kMaxDeaths.
  void doubt_requests(const LaunchFailure& failure);
  void connect(uint64_t id, Entry& entry);
  // Ends the requests that are cancelled, late, or have waited for a launch for too long.
  void look_after_requests();
  bool is_late(const Entry& entry, Clock::time_point now) const;
  Status late(const Entry& entry) const;
  // The reason why requests wait, for messages; empty while there is a launch.
  std::string why_waiting() const;
  EngineCondition condition() const;
  void answer(uint64_t call, const Status& status, bool result);
  void cancel_parts(const Entry& entry);
  void erase(uint64_t id);
  int64_t num_samples() const;
  // Asks the launch and waits for its answer.
  Call call(std::unique_lock<std::mutex>& lock, DownMessage message, uint64_t connects);
  // Takes the lock.
  Status change_speculation(uint64_t id, const SpeculationOptions& options);

  SupervisorOptions options_;
  const std::shared_ptr<WakeDescriptor> waker_;
  const std::vector<std::string> hosts_to_ask_;
  RelaunchPolicy policy_;                     // used by the supervisor's thread alone
  std::unique_ptr<HostQuestions> questions_;  // used by the supervisor's thread alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kStarting;
  Status given_up_;
  bool stopping_ = false;
  bool was_ready_ = false;
  bool has_draft_ = true;  // false: the present or next launch lacks the draft that was asked for
  // When the last launch was lost; nothing while one runs.
  std::optional<Clock::time_point> lost_at_;
  bool has_failed_again_ = false;  // a start has failed since then
  Status lost_;                    // why the last one was lost
  std::vector<std::string> away_;  // hosts that do not answer
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
