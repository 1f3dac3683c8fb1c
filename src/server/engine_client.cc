#include "server/engine_client.h"

#include <utility>

namespace forerun::server {

// After this many events the loop serves sockets again.
constexpr int kMaxEventsATurn = 256;

Result<std::unique_ptr<EngineClient>> EngineClient::create(Engine& engine, EventLoop& loop) {
  auto queue = CompletionQueue::create();
  if (!queue.ok()) return queue.status();
  std::unique_ptr<EngineClient> client(new EngineClient(engine, std::move(*queue)));
  const Status watched =
      loop.watch(client->queue_->fd(), [raw = client.get()] { raw->take_events(); });
  if (!watched.ok()) return watched;
  return client;
}

Result<std::shared_ptr<RequestHandle>> EngineClient::submit(Request request, OnEvent on_event) {
  uint64_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = ++last_tag_;
    receivers_.emplace(tag, std::make_shared<OnEvent>(std::move(on_event)));
  }
  auto handle = engine_.submit(std::move(request), *queue_, tag);
  if (!handle.ok()) {
    const std::lock_guard lock(mutex_);
    receivers_.erase(tag);
  }
  return handle;
}

void EngineClient::take_events() {
  for (int count = 0; count < kMaxEventsATurn; ++count) {
    std::optional<Completion> completion = queue_->poll();
    if (!completion) return;
    std::shared_ptr<OnEvent> receiver;
    {
      const std::lock_guard lock(mutex_);
      const auto found = receivers_.find(completion->tag);
      if (found == receivers_.end()) continue;
      receiver = found->second;
      if (completion->event.last) receivers_.erase(found);
    }
    (*receiver)(std::move(completion->event));
  }
}

}  // namespace forerun::server
