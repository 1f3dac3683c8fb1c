// One launch as its supervisor sees it: messages to its coordinator and from it, whether it lives,
// and what it, mpirun or a rank have said where it does not.
//
// Threads: one at a time, the one that started it.
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
  // `options` must outlive it; `engine` is what the launch is told of the engine.
  static Result<std::unique_ptr<LaunchLink>> start(const SupervisorOptions& options,
                                                   const EngineOptions& engine);

  void send(const DownMessage& message);
  // Waits until something comes, `wake` is readable or `timeout` is over; adds what has come to
  // `messages`. Not ok, and nothing comes any more: the launch is lost.
  std::optional<LaunchFailure> wait(int wake, std::chrono::milliseconds timeout,
                                    std::vector<UpMessage>& messages);
  bool has_spoken() const { return has_spoken_; }
  // It has ended by itself with an exit code of its own, no signal's: what it said is the reason,
  // and starting it again would hear it again.
  bool has_left() const { return has_left_; }
  // Ends it. `politely`: it is asked to leave and gets time for that.
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
