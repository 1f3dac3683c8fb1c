// A barrier for a fixed number of threads that can be given up.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace forerun {

// How often waiting threads poll before they sleep: 20-50 us, longer than the gap between two
// kernels of a forward, shorter than what a sleeping neighbour would notice. Where threads share
// cores, polling keeps the one that is waited for from running.
inline constexpr int kPatientSpins = 2000;
inline constexpr int kSharedCoreSpins = 20;

// Waits until `value` differs from `old`: polls `spins` times, then sleeps.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, int spins);

class Barrier {
 public:
  explicit Barrier(int32_t size, int spins = kPatientSpins) : size_(size), spins_(spins) {}

  // Everything written before by any member is seen after by every member. False where the barrier
  // has been given up, before or while waiting; nothing is known of the others then. Without
  // `timeout` it waits for ever; when it ends, this member gives the barrier up.
  bool wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Wakes every member; all waits fail until reset(). From any thread.
  void give_up();
  // Makes it usable again. While no member waits.
  void reset();

 private:
  void advance(uint32_t generation);

  const int32_t size_;
  const int spins_;
  alignas(64) std::atomic<int32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> given_up_{false};
  std::atomic<int32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace forerun
