#include "server/worker_pool.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace forerun::server {
namespace {

// Leaves the thread about a tenth of a core where other threads want that core, and all of it where
// none does.
constexpr int kNiceOfLarge = 10;

void be_nice() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  // Where this fails, the thread runs at the normal priority.
  static_cast<void>(::setpriority(PRIO_PROCESS, thread, kNiceOfLarge));
}

}  // namespace

WorkerPool::WorkerPool(const Options& options) : options_(options) {
  for (int idx = 0; idx < options_.threads; ++idx) {
    threads_.emplace_back([this] { run(small_); });
  }
  threads_.emplace_back([this] {
    be_nice();
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
