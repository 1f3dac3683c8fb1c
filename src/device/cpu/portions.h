// Portions of work for as many threads as there are cores, for loading and converting. Forward
// passes use teams (team.h), which do not start threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "device/cpu/team.h"

namespace forerun {

// A counter that hands out each of 0 to count - 1 once, in ascending order. Many threads may use
// it.
class Portions {
 public:
  explicit Portions(int64_t count) : count_(count) {}
  std::optional<int64_t> next() {
    const int64_t portion = next_.fetch_add(1, std::memory_order_relaxed);
    return portion < count_ ? std::optional(portion) : std::nullopt;
  }

 private:
  std::atomic<int64_t> next_ = 0;
  const int64_t count_;
};

// Calls work(portions) on the calling thread and on new ones: one thread per core, at most
// `max_threads` and one per portion. Returns when all calls have returned.
template <class Work>
void share_portions(int64_t count, int64_t max_threads, const Work& work) {
  Portions portions(count);
  const auto cores = static_cast<int64_t>(available_cores().size());
  const int64_t threads = std::min({cores, max_threads, count});
  std::vector<std::thread> others;
  for (int64_t thread = 1; thread < threads; ++thread) {
    others.emplace_back([&] { work(portions); });
  }
  work(portions);
  for (std::thread& other : others) other.join();
}

}  // namespace forerun
