// Threads for work that must not block the loop: parsing large requests, templates, tokenizing.
//
// Large tasks have one thread of their own, at a lower priority for the system's scheduler, so that
// they neither delay small tasks nor take a core from a computing engine. Among waiting small tasks
// smaller ones go first, but each task is overtaken by a bounded number.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/task_queue.h"

namespace forerun::server {

class WorkerPool {
 public:
  struct Options {
    int threads = 2;                 // for small tasks; there is one more for large ones
    size_t max_waiting = 1024;       // waiting tasks of both kinds together
    int64_t large_bytes = 64 << 10;  // a task with more bytes is large
  };

  explicit WorkerPool(const Options& options);
  // Waits for the running tasks; drops those that have not begun.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `task`, which reads `bytes` bytes, on one of the threads. Returns false if `max_waiting`
  // tasks already wait. May be called from any thread.
  bool try_post(int64_t bytes, std::function<void()> task);
  // Does the same for a task that takes long even with few bytes.
  bool try_post_long(std::function<void()> task);

 private:
  struct Lane {
    TaskQueue tasks;
    std::condition_variable changed;
  };
  void run(Lane& lane);

  const Options options_;
  std::mutex mutex_;
  Lane small_, large_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace forerun::server
