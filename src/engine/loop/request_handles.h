// Handles of submitted requests; they cancel their request when they are destroyed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "engine/loop/event_queue.h"
#include "forerun/request_stream.h"

namespace forerun {

class QueuedRequest : public RequestHandle {
 public:
  explicit QueuedRequest(std::shared_ptr<RequestChannel> channel) : channel_(std::move(channel)) {}
  ~QueuedRequest() override { channel_->cancel(); }
  void cancel() override { channel_->cancel(); }
  Status change_speculation(const SpeculationOptions& options) override {
    return channel_->change_speculation(options);
  }

 private:
  const std::shared_ptr<RequestChannel> channel_;
};

// A handle with an event queue for this request alone.
class PulledRequest : public RequestStream {
 public:
  explicit PulledRequest(std::shared_ptr<RequestChannel> channel) : channel_(std::move(channel)) {}
  ~PulledRequest() override {
    channel_->queue().close();
    channel_->cancel();
  }
  void cancel() override { channel_->cancel(); }
  Status change_speculation(const SpeculationOptions& options) override {
    return channel_->change_speculation(options);
  }
  std::optional<Event> next() override { return take(std::nullopt); }
  std::optional<Event> next_for(std::chrono::milliseconds timeout) override {
    return take(timeout);
  }

 private:
  std::optional<Event> take(std::optional<std::chrono::milliseconds> timeout) {
    std::optional<Completion> completion = channel_->queue().take(timeout, /*until_drained=*/true);
    if (!completion) return std::nullopt;
    return std::move(completion->event);
  }

  const std::shared_ptr<RequestChannel> channel_;
};

}  // namespace forerun
