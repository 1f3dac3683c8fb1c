// A barrier for a fixed number of threads. Any thread may give the barrier up, which ends every
// wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace forerun {

// The number of polls before a waiting thread sleeps. 2,000 polls take 20-50 us: longer than the
// gap between two kernels of a forward pass, too short to disturb other processes. Threads that
// share a core poll less, since polling keeps the awaited thread from running.
inline constexpr int kPatientSpins = 2000;
inline constexpr int kSharedCoreSpins = 20;

// Waits until `value` differs from `old`: polls `spins` times, then sleeps.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, int spins);

class Barrier {
 public:
  explicit Barrier(int32_t size, int spins = kPatientSpins) : size_(size), spins_(spins) {}

  // Waits until all members have arrived. Everything that a member wrote before the barrier is
  // visible to every member after it. Returns false if a member gave the barrier up before or
  // during the wait; the state of the other members is then unknown. Waits for ever without
  // `timeout`; after `timeout` this member gives the barrier up.
  bool wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Wakes every member; all waits fail until reset(). May be called from any thread.
  void give_up();
  // Makes the barrier usable again. May be called only while no member waits.
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
