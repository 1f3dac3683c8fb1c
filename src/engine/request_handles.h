// What submit() gives to its caller: holds on a request that cancel it when they are dropped.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "engine/event_queue.h"
#include "forerun/request_stream.h"

namespace forerun {

class QueuedRequest : public RequestHandle {
 public:
  explicit QueuedRequest(std::shared_ptr<CancelFlag> cancel) : cancel_(std::move(cancel)) {}
  ~QueuedRequest() override { cancel_->set(); }
  void cancel() override { cancel_->set(); }

 private:
  const std::shared_ptr<CancelFlag> cancel_;
};

// Reads a queue of its own, which nothing else is on.
class PulledRequest : public RequestStream {
 public:
  PulledRequest(std::shared_ptr<CancelFlag> cancel, std::shared_ptr<EventQueue> events)
      : cancel_(std::move(cancel)), events_(std::move(events)) {}
  ~PulledRequest() override {
    events_->close();
    cancel_->set();
  }
  void cancel() override { cancel_->set(); }
  std::optional<Event> next() override { return take(std::nullopt); }
  std::optional<Event> next_for(std::chrono::milliseconds timeout) override {
    return take(timeout);
  }

 private:
  std::optional<Event> take(std::optional<std::chrono::milliseconds> timeout) {
    std::optional<Completion> completion = events_->take(timeout, /*until_drained=*/true);
    if (!completion) return std::nullopt;
    return std::move(completion->event);
  }

  const std::shared_ptr<CancelFlag> cancel_;
  const std::shared_ptr<EventQueue> events_;
};

// Both ends of a request that is read by waiting for it: the loop's and the reader's.
struct PulledEnds {
  std::shared_ptr<EventStream> events;
  std::shared_ptr<RequestStream> reader;
};
inline PulledEnds open_pulled_request(std::function<void()> wake) {
  auto cancel = std::make_shared<CancelFlag>(std::move(wake));
  auto queue = std::make_shared<EventQueue>();
  auto events = EventStream::open(queue, cancel, /*tag=*/0);
  return {std::move(events), std::make_shared<PulledRequest>(std::move(cancel), std::move(queue))};
}

}  // namespace forerun
