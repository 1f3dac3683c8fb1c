// Wakes the engine's loop when another thread has news for it: a submission, a cancellation or the
// engine's end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace forerun {

// Shared with streams, which may outlive the engine. wake() may be called from any thread, the
// other functions only from the loop's.
class LoopWaker {
 public:
  void wake();
  // Waits until there is news.
  void wait();
  // Returns whether there has been news since the last call.
  bool take_news() { return news_.exchange(false, std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<bool> news_{false};
};

}  // namespace forerun
