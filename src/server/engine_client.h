// Submits requests to an engine and passes their events to functions on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "forerun/engine.h"
#include "server/http/event_loop.h"

namespace forerun::server {

class EngineClient {
 public:
  using OnEvent = std::function<void(Event&&)>;

  // `engine` and `loop` must outlive the client, and `loop` must not run after its destruction.
  static Result<std::unique_ptr<EngineClient>> create(Engine& engine, EventLoop& loop);

  // Submits the request. `on_event` is called on the loop's thread for every event, including the
  // request's last one, even after the handle has been dropped. May be called from any thread;
  // tokenizes on that thread.
  Result<std::shared_ptr<RequestHandle>> submit(Request request, OnEvent on_event);

  Engine& engine() { return engine_; }

 private:
  EngineClient(Engine& engine, std::unique_ptr<CompletionQueue> queue)
      : engine_(engine), queue_(std::move(queue)) {}
  void take_events();

  Engine& engine_;
  std::mutex mutex_;  // guards the members below
  uint64_t last_tag_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<OnEvent>> receivers_;
  // The last member, so that its requests end before the other members are destroyed.
  std::unique_ptr<CompletionQueue> queue_;
};

}  // namespace forerun::server
