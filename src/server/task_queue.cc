#include "server/task_queue.h"

#include <algorithm>
#include <utility>

namespace forerun::server {

void TaskQueue::push(int64_t bytes, std::function<void()> task) {
  const int64_t arrival = arrivals_++;
  // A later task of no bytes gets its own arrival as its turn, so it overtakes this task only while
  // its arrival is below this task's turn.
  waiting_.push_back({arrival + bytes / kUnitBytes, arrival, std::move(task)});
  std::push_heap(waiting_.begin(), waiting_.end(), is_later);
}

std::function<void()> TaskQueue::pop() {
  std::pop_heap(waiting_.begin(), waiting_.end(), is_later);
  std::function<void()> task = std::move(waiting_.back().task);
  waiting_.pop_back();
  return task;
}

}  // namespace forerun::server
