// Threads for what must not hold up the loop: reading large requests, templates, tokenizing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace forerun::server {

class WorkerPool {
 public:
  WorkerPool(int num_threads, size_t most_waiting);
  // Waits for what runs; what has not begun is dropped.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `task` on one of the threads. False where as many wait already as may. From any thread.
  bool try_post(std::function<void()> task);

 private:
  void run();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace forerun::server
