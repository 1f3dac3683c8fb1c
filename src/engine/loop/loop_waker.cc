#include "engine/loop/loop_waker.h"

namespace forerun {

void LoopWaker::wake() {
  {
    const std::lock_guard lock(mutex_);
    news_.store(true, std::memory_order_release);
  }
  condition_.notify_one();
}

void LoopWaker::wait() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [this] { return news_.load(std::memory_order_acquire); });
}

}  // namespace forerun
