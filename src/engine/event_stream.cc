#include "engine/event_stream.h"

#include <utility>

namespace forerun {

EventStream::EventStream(std::function<void()> on_cancel) : on_cancel_(std::move(on_cancel)) {}

std::optional<Event> EventStream::take_locked() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  closed_ = event.finished;
  return event;
}

std::optional<Event> EventStream::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !events_.empty(); });
  return take_locked();
}

std::optional<Event> EventStream::next_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return closed_ || !events_.empty(); });
  return take_locked();
}

void EventStream::cancel() {
  cancelled_.store(true, std::memory_order_release);
  if (on_cancel_) on_cancel_();
}

void EventStream::push(Event event) {
  {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
}

}  // namespace forerun
