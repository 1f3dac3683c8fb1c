// The life cycle of launches: starts a launch, serves requests with it until it is lost, and starts
// the next one as RelaunchPolicy decides.
//
// Thread rules: all of it runs on the supervisor's thread, without the lock. It changes the
// SupervisorState, under its lock, and reads SupervisorState::is_stopping.
#pragma once

#include <chrono>
#include <optional>

#include "supervisor/host_watch.h"
#include "supervisor/launch_link.h"
#include "supervisor/relaunch_policy.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/supervisor_state.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class LaunchCycle {
 public:
  // `options`, `waker` and `state` must outlive the object.
  LaunchCycle(const SupervisorOptions& options, const WakeDescriptor& waker,
              SupervisorState& state);

  // Returns once the supervisor stops or no launch will follow. Then there is no launch, and all
  // requests have ended.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  // Runs one launch, from its start to its end. Returns nothing if it ends to be replaced by a
  // launch with the draft, or because the supervisor stops. Sets `is_worth_another` to false if the
  // launch has never run and has given a reason.
  std::optional<LaunchFailure> run_launch(bool& is_worth_another);
  // Returns the options of the next launch.
  EngineOptions next_engine();
  // Serves requests until the launch is lost. Returns nothing if the launch must end because the
  // supervisor stops or the draft is to come back.
  std::optional<LaunchFailure> serve(LaunchLink& link);
  // Returns a failure if the launch must be replaced.
  std::optional<LaunchFailure> handle(UpMessage&& message);
  void be_ready(EngineInfo&& info);  // called under the lock
  LaunchFailure failure_of(const UpMessage& message) const;
  // Returns whether a request may have caused the failure.
  bool is_death(const LaunchFailure& failure) const;
  void note_loss(const Status& why);
  // Waits until another launch may be started. Returns false if none will be started.
  bool prepare_another(LaunchFailure& failure);
  void give_up(const Status& why);

  const SupervisorOptions& options_;
  const WakeDescriptor& waker_;
  SupervisorState& state_;
  RelaunchPolicy policy_;
  HostWatch hosts_;
};

}  // namespace forerun
