// The queue between the engine's loop and a request's reader.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "forerun/engine.h"

namespace forerun {

// push() comes from the loop's thread, the rest from the reader's (cancel() from any).
class EventStream : public RequestStream {
 public:
  // `on_cancel` wakes the loop; it may be called after the engine is gone and must allow that.
  explicit EventStream(std::function<void()> on_cancel);

  std::optional<Event> next() override;
  std::optional<Event> next_for(std::chrono::milliseconds timeout) override;
  void cancel() override;

  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // An event with `finished` set is the last one.
  void push(Event event);

 private:
  std::optional<Event> take_locked();

  std::function<void()> on_cancel_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool closed_ = false;  // the last event has been taken
};

}  // namespace forerun
