#include "base/background_thread.h"

#include <sys/resource.h>

namespace forerun {

void run_in_background() {
  constexpr int kNiceness = 10;
  // On Linux each thread has a niceness of its own, so this changes only the calling thread.
  static_cast<void>(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNiceness));
}

}  // namespace forerun
