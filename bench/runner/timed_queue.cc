#include "runner/timed_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace forerun::bench {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<TimedQueue> TimedQueue::create(std::function<bool()> stop) {
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<CompletionQueue> queue, CompletionQueue::create());
  return TimedQueue(std::move(queue), std::move(stop));
}

Status TimedQueue::submit(Engine& engine, Request request, size_t index) {
  FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<RequestHandle> handle,
                           engine.submit(std::move(request), *queue_, index));
  handles_[index] = std::move(handle);
  return Status();
}

std::optional<TimedEvent> TimedQueue::next(double until_s) {
  std::optional<Completion> completion;
  while (!completion) {
    if (!stopped_ && stop_ && stop_()) {
      stopped_ = true;
      cancel_all();
    }
    if ((completion = queue_->poll())) break;
    if ((until_s == kNever || stopped_) && handles_.empty()) return std::nullopt;
    const double left_s = until_s - now_s();
    if (left_s <= 0) return std::nullopt;
    completion = queue_->next_for(
        std::min(kStopPoll, std::chrono::ceil<std::chrono::milliseconds>(
                                std::chrono::duration<double>(std::min(left_s, 1.0)))));
  }
  const double read_s = now_s();
  if (completion->event.finished) handles_.erase(completion->tag);
  return TimedEvent{completion->tag, read_s, std::move(completion->event)};
}

void TimedQueue::cancel(size_t request) {
  if (const auto found = handles_.find(request); found != handles_.end()) found->second->cancel();
}

Status TimedQueue::stop_status() const {
  return stopped_ ? Status(StatusCode::kCancelled, "interrupted") : Status();
}

void TimedQueue::cancel_all() {
  for (const auto& [request, handle] : handles_) handle->cancel();
}

}  // namespace forerun::bench
