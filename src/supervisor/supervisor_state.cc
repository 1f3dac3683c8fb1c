#include "supervisor/supervisor_state.h"

#include <thread>

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

// Interval at which requests are checked while there is no launch.
constexpr std::chrono::milliseconds kPausePoll{50};

}  // namespace

bool SupervisorState::stops() const {
  const std::lock_guard lock(mutex);
  return is_stopping;
}

bool SupervisorState::pause(std::chrono::milliseconds duration) {
  const Clock::time_point until = Clock::now() + duration;
  while (Clock::now() < until) {
    {
      const std::lock_guard lock(mutex);
      if (is_stopping) return false;
      requests.look_after(Clock::now());
    }
    std::this_thread::sleep_for(kPausePoll);
  }
  return !stops();
}

}  // namespace forerun
