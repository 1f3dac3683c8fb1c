#include "device/cpu/barrier.h"

#include "base/cpu_relax.h"

namespace forerun {
namespace {

bool changes_soon(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
  for (int spin = 0; spin < spins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return true;
    cpu_relax();
  }
  return false;
}

}  // namespace

void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, int spins) {
  if (changes_soon(value, old, spins)) return;
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void Barrier::advance(uint32_t generation) {
  // This store and the increment of sleepers_ are sequentially consistent: either this thread sees
  // the sleeper, or the sleeper sees the new generation.
  generation_.store(generation, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  // Taking the mutex once ensures that a sleeper that read the old generation is asleep.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

bool Barrier::wait(std::optional<std::chrono::milliseconds> timeout) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (given_up_.load(std::memory_order_acquire)) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    advance(generation + 1);
    return true;
  }
  if (!changes_soon(generation_, generation, spins_)) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    bool in_time = true;
    {
      std::unique_lock lock(mutex_);
      const auto changed = [&] {
        return generation_.load(std::memory_order_seq_cst) != generation;
      };
      if (timeout) {
        // Waits in slices of the timeout: a process that was stopped for a long time then loses one
        // slice, not the whole timeout.
        constexpr int kSlices = 8;
        in_time = false;
        for (int slice = 0; slice < kSlices && !in_time; ++slice) {
          in_time = changed_.wait_for(lock, *timeout / kSlices, changed);
        }
      } else {
        changed_.wait(lock, changed);
      }
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (!in_time) give_up();
  }
  return !given_up_.load(std::memory_order_acquire);
}

void Barrier::give_up() {
  given_up_.store(true, std::memory_order_seq_cst);
  // Sets the value that a last member arriving at this moment would set, or a later one.
  advance(generation_.load(std::memory_order_seq_cst) + 1);
}

void Barrier::reset() {
  arrived_.store(0, std::memory_order_relaxed);
  given_up_.store(false, std::memory_order_release);
}

}  // namespace forerun
