// A queue of items from any thread to one waiting thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_relax.h"

namespace forerun {

// For readers that may share a core with the writer: they sleep at once.
constexpr std::chrono::microseconds kNoSpin{0};

template <class Item>
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  // `spin` is the time for which the reader polls before it sleeps. Waking a sleeper takes tens of
  // microseconds; polling occupies a core.
  explicit Mailbox(std::chrono::microseconds spin) : spin_(spin) {}

  // Adds an item that the reader does not see before wake(): the caller may add more for the same
  // Step.
  void add(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  // Moves all of `items` into the queue.
  void add_all(std::vector<Item>& items) {
    {
      const std::lock_guard lock(mutex_);
      std::move(items.begin(), items.end(), std::back_inserter(items_));
    }
    items.clear();
  }
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      filled_.store(!items_.empty(), std::memory_order_release);
    }
    arrived_.notify_one();
  }

  // Appends all items to `out`; if there are none, waits for the first one until `deadline`.
  void take(Clock::time_point deadline, std::vector<Item>& out) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point polled = now + std::min<Clock::duration>(spin_, deadline - now);
    for (int looks = 1; !filled_.load(std::memory_order_acquire) && Clock::now() < polled;
         ++looks) {
      if (looks % kLooksToYield == 0) {
        std::this_thread::yield();
      } else {
        cpu_relax();
      }
    }
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, deadline, [this] { return !items_.empty(); });
    std::move(items_.begin(), items_.end(), std::back_inserter(out));
    items_.clear();
    filled_.store(false, std::memory_order_relaxed);
  }

 private:
  // Polls between yields, since another engine's reader may be pinned to the same core.
  static constexpr int kLooksToYield = 16;

  const std::chrono::microseconds spin_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Item> items_;
  // Whether wake() followed the last items; changes under the mutex.
  std::atomic<bool> filled_{false};
};

}  // namespace forerun
