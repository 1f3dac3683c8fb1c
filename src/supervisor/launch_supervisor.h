// Keeps a launch running and its requests alive: accepts requests from an engine's callers, while
// its own thread starts launches and serves the requests with them (LaunchCycle). When a launch is
// lost, the requests continue from their tokens in the next one.
//
// Thread rules: all methods may be called from any thread. submit() waits at most a second for the
// launch's answer. Other calls wait until the launch answers or is lost, at most for the longest
// silence.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "forerun/engine.h"
#include "supervisor/launch_cycle.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/supervisor_state.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class LaunchSupervisor : public std::enable_shared_from_this<LaunchSupervisor> {
 public:
  static std::shared_ptr<LaunchSupervisor> start(SupervisorOptions options);
  ~LaunchSupervisor();

  // Waits for the engine of the first launch; calls on_progress on the calling thread. Fails with
  // the reason if there is no engine; with kCancelled if SupervisorOptions::is_cancelled returns
  // true.
  Result<EngineInfo> wait_until_ready();

  // Submits a request that meets SupervisedRequest's requirements. While a launch is being
  // replaced, the request waits for the next one. Fails with the launch's own refusal, with
  // kOverloaded or, once the supervisor has given up launches, with the reason for that.
  Result<std::shared_ptr<RequestChannel>> submit(Request request, std::shared_ptr<EventQueue> queue,
                                                 uint64_t tag);
  // Asks the launch for Engine::prepare_format(); returns true if there is no launch.
  bool prepare_format(const OutputFormat& format, bool quick);
  // Returns the latest state that the launch has reported, with the totals of all launches, and
  // whether there is a launch. A launch's work after its last report is not counted.
  EngineState state() const;
  // Ends the launch; its requests end as cancelled.
  void stop();

 private:
  explicit LaunchSupervisor(SupervisorOptions options);
  RequestChannel::EngineSide engine_side(uint64_t id);
  Status change_speculation(uint64_t id, const SpeculationOptions& options);

  const SupervisorOptions options_;
  const std::shared_ptr<WakeDescriptor> waker_;
  SupervisorState state_;
  LaunchCycle cycle_;   // used only by the thread
  std::thread thread_;  // last: it uses all other members
};

}  // namespace forerun
