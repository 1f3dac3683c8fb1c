// Finds the hosts of a launch that do not answer: while the launch starts, and, after it is lost,
// until all of them answer again.
//
// Thread rules: used by the supervisor's thread, without the lock. Sets the silent hosts of
// SupervisorState::launch, and looks after its requests while it waits for hosts.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/host_questions.h"
#include "supervisor/relaunch_policy.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/supervisor_state.h"

namespace forerun {

class HostWatch {
 public:
  // `options` and `state` must outlive the object. Without SupervisorOptions::ask, all hosts count
  // as answering.
  HostWatch(const SupervisorOptions& options, SupervisorState& state);

  // Asks all hosts once; returns whether all have answered. Returns early if the supervisor stops.
  bool ask();
  // Asks repeatedly until all hosts answer or the supervisor stops.
  void wait_for_all();

  // Must be called regularly while a launch that began at `begun` starts; `has_spoken`: it has sent
  // a message. Asks the hosts once half of the launch's start timeout has passed.
  void watch_start(std::chrono::steady_clock::time_point begun, bool has_spoken);
  // Adds the hosts that do not answer to the error of a launch that failed to start.
  void name_silent(LaunchFailure& failure);
  // Ends the questions of watch_start().
  void end_start() { start_questions_.reset(); }

 private:
  const SupervisorOptions& options_;
  SupervisorState& state_;
  const std::vector<std::string> hosts_;
  std::unique_ptr<HostQuestions> start_questions_;  // null: no questions are in progress
};

}  // namespace forerun
