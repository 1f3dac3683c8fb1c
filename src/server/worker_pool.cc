#include "server/worker_pool.h"

#include <utility>

#include "base/background_thread.h"

namespace forerun::server {

WorkerPool::WorkerPool(const Options& options) : options_(options) {
  for (int idx = 0; idx < options_.threads; ++idx) {
    threads_.emplace_back([this] { run(small_); });
  }
  threads_.emplace_back([this] {
    run_in_background();
    run(large_);
  });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  small_.changed.notify_all();
  large_.changed.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::try_post(int64_t bytes, std::function<void()> task) {
  Lane& lane = bytes > options_.large_bytes ? large_ : small_;
  {
    const std::lock_guard lock(mutex_);
    const size_t waiting = small_.tasks.size() + large_.tasks.size();
    if (stopped_ || waiting >= options_.max_waiting) return false;
    lane.tasks.push(bytes, std::move(task));
  }
  lane.changed.notify_one();
  return true;
}

bool WorkerPool::try_post_long(std::function<void()> task) {
  return try_post(options_.large_bytes + 1, std::move(task));
}

void WorkerPool::run(Lane& lane) {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      lane.changed.wait(lock, [&] { return stopped_ || lane.tasks.size() > 0; });
      if (stopped_) return;
      task = lane.tasks.pop();
    }
    task();
  }
}

}  // namespace forerun::server
