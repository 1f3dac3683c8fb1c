#include "base/clocks.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

namespace forerun {

int64_t steady_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t thread_cpu_read_ns() {
  static const int64_t cost = [] {
    int64_t min_ns = std::numeric_limits<int64_t>::max();
    for (int turn = 0; turn < 100; ++turn) {
      const int64_t start = thread_cpu_ns();
      min_ns = std::min(min_ns, thread_cpu_ns() - start);
    }
    return min_ns;
  }();
  return cost;
}

}  // namespace forerun
