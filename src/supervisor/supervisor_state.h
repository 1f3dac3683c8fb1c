// The state that the callers of a LaunchSupervisor share with its own thread, under one lock: a
// request must not be submitted to a launch that has just been lost.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "forerun/engine.h"
#include "supervisor/launch_availability.h"
#include "supervisor/launch_calls.h"
#include "supervisor/message.h"
#include "supervisor/supervised_requests.h"
#include "supervisor/supervisor_options.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

struct SupervisorState {
  // `options` must outlive the object. `waker` wakes the supervisor's thread.
  SupervisorState(const SupervisorOptions& options, std::shared_ptr<WakeDescriptor> waker,
                  SupervisedRequests::EngineSideOf engine_side)
      : launch(options.soon),
        calls(std::move(waker)),
        requests(options, launch, calls, std::move(engine_side)) {}

  // Both functions are for the supervisor's thread and take the lock.
  bool stops() const;
  // Waits for `duration` and checks the requests meanwhile. Returns false, early, if the supervisor
  // stops.
  bool pause(std::chrono::milliseconds duration);

  mutable std::mutex mutex;
  // Notified when `progress` changes and when a launch is ready or given up.
  std::condition_variable changed;
  bool is_stopping = false;
  LaunchAvailability launch;
  LaunchCalls calls;
  SupervisedRequests requests;
  EngineInfo info;       // facts of the first launch
  EngineState reported;  // the latest state that a launch has reported
  EngineState ended;     // only totals: the sums over the launches before it
  // The part that the first launch is loading, and the loaded fraction, if its caller has not
  // received them.
  std::optional<std::pair<std::string, double>> progress;
};

}  // namespace forerun
