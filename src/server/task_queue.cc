#include "server/task_queue.h"

#include <algorithm>
#include <utility>

namespace forerun::server {

void TaskQueue::push(int64_t bytes, std::function<void()> task) {
  const int64_t arrival = arrivals_++;
  // A later task of no bytes at all has a turn of its own arrival: it overtakes this one while
  // that is below this one's turn.
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
