#include "runner/timed_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace forerun::bench {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<TimedQueue> TimedQueue::create() {
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<CompletionQueue> queue, CompletionQueue::create());
  return TimedQueue(std::move(queue));
}

Status TimedQueue::submit(Engine& engine, Request request, size_t index) {
  FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<RequestHandle> handle,
                           engine.submit(std::move(request), *queue_, index));
  handles_[index] = std::move(handle);
  return Status();
}

std::optional<TimedEvent> TimedQueue::next(double until_s) {
  std::optional<Completion> completion = queue_->poll();
  if (!completion && until_s == kNever) completion = queue_->next();
  while (!completion && until_s != kNever) {
    const double left_s = until_s - now_s();
    if (left_s <= 0) return std::nullopt;
    completion = queue_->next_for(std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(std::min(left_s, 1.0))));
  }
  if (!completion) return std::nullopt;
  const double read_s = now_s();
  if (completion->event.finished) handles_.erase(completion->tag);
  return TimedEvent{completion->tag, read_s, std::move(completion->event)};
}

void TimedQueue::cancel(size_t request) {
  if (const auto found = handles_.find(request); found != handles_.end()) found->second->cancel();
}

void TimedQueue::cancel_all() {
  for (const auto& [request, handle] : handles_) handle->cancel();
}

}  // namespace forerun::bench
