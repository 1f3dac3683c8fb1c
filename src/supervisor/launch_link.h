// The supervisor's connection to one launch: messages to and from its coordinator, whether the
// launch is alive, and the output of the coordinator, mpirun or a rank if it has failed.
//
// Thread rules: only the thread that started the launch.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/launch_folder.h"
#include "supervisor/launch_process.h"
#include "supervisor/message.h"
#include "supervisor/mpirun_notices.h"
#include "supervisor/relaunch_policy.h"
#include "supervisor/supervisor_options.h"

namespace forerun {

class LaunchLink {
 public:
  // `options` must outlive the link. `engine` has the engine options that are sent to the launch.
  static Result<std::unique_ptr<LaunchLink>> start(const SupervisorOptions& options,
                                                   const EngineOptions& engine);

  void send(const DownMessage& message);
  // Waits until a message arrives, `wake` is readable or `timeout` is over; appends the received
  // messages to `messages`. Returns the failure once the launch is lost; no message follows then.
  std::optional<LaunchFailure> wait(int wake, std::chrono::milliseconds timeout,
                                    std::vector<UpMessage>& messages);
  bool has_spoken() const { return has_spoken_; }
  // Returns whether the launch has ended by itself, with an exit code and not by a signal. Then its
  // output has the reason, and another start would fail for the same reason.
  bool has_left() const { return has_left_; }
  // Ends the launch. `politely`: it is asked to leave and gets time to do so.
  void end(bool politely);

 private:
  using Clock = std::chrono::steady_clock;
  LaunchLink(const SupervisorOptions& options, LaunchFolder folder,
             std::unique_ptr<LaunchProcess> process);
  void read_errors();
  void add_complaints(std::vector<std::string> lines);
  LaunchFailure why_it_ended();
  std::optional<LaunchFailure> look_for_silence();

  const SupervisorOptions& options_;
  const LaunchFolder folder_;
  const std::unique_ptr<LaunchProcess> process_;
  MpirunNotices notices_;
  const Clock::time_point started_;
  Clock::time_point heard_;
  Clock::time_point looked_;
  Clock::time_point pinged_;
  bool has_spoken_ = false;
  bool has_left_ = false;
  std::deque<std::string> complaints_;  // the last lines of its standard error
};

}  // namespace forerun
