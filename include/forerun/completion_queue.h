// CompletionQueue: the events of many requests for one reader.
//
//   auto queue = std::move(forerun::CompletionQueue::create()).value();
//   auto handle = engine->submit(request, *queue, /*tag=*/7);   // keep it: dropping it cancels
//   while (auto completion = queue->next()) write(completion->tag, completion->event.text);
//
// Or, in a program that waits for sockets too: poll queue->fd() beside them, and take what there is
// with poll() until nothing comes. docs/embedding.md has a server; examples/line_server.cc runs.
//
// Order: events of one request come in order. Among requests, those whose events have waited
// longest come first, so that none can crowd out another.
//
// Memory: what a slow reader has not taken is kept as one event a request (Event says how), so a
// queue holds at most what its requests have put out.
//
// Lifetime: a queue may outlive engines and takes requests of several. Each request that submit()
// accepted gives exactly one event with `last` set, also where it is cancelled or its engine is
// destroyed. Destroying the queue cancels its requests and drops what nobody has read.
//
// Threads: all methods from any thread; several readers each get what the others have not taken.
// No lock is held while a caller's code runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "forerun/event.h"
#include "forerun/status.h"

namespace forerun {

class EventQueue;

struct Completion {
  uint64_t tag = 0;  // as given to Engine::submit
  Event event;
};

class CompletionQueue {
 public:
  // Fails with kResourceExhausted where the process has no descriptor left.
  static Result<std::unique_ptr<CompletionQueue>> create();
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // What there is, without waiting.
  std::optional<Completion> poll();
  // Waits for the next one. Nothing where no request is outstanding: nothing could come.
  std::optional<Completion> next();
  // Waits up to `timeout`, also where no request is outstanding yet.
  std::optional<Completion> next_for(std::chrono::milliseconds timeout);

  // A descriptor for poll(2), epoll(7) and the like, readable while poll() would give something.
  // Level-triggered; owned by the queue, neither to be read nor closed.
  int fd() const;
  // Requests that were submitted and whose last event has not been taken.
  int64_t outstanding() const;

  // The engine's side of it.
  const std::shared_ptr<EventQueue>& events() const { return events_; }

 private:
  explicit CompletionQueue(std::shared_ptr<EventQueue> events);
  std::shared_ptr<EventQueue> events_;
};

}  // namespace forerun
