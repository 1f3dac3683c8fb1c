// CompletionQueue: the events of many requests for one reader.
//
//   auto queue = std::move(forerun::CompletionQueue::create()).value();
//   auto handle = engine->submit(request, *queue, /*tag=*/7);   // keep it: dropping it cancels
//   while (auto completion = queue->next()) write(completion->tag, completion->event.text);
//
// A program that waits for sockets, too, polls queue->fd() beside them and calls poll() until it
// returns nothing. docs/embedding.md describes a server; examples/line_server.cc is a complete one.
//
// Order: events of one request come in order. Among requests, those whose events have waited
// longest come first, so that none can crowd out another.
//
// Memory: the queue merges the events that a slow reader has not taken into one event a request
// (see Event), so a queue holds at most the output of its requests.
//
// Lifetime: a queue may outlive engines, and may serve requests of several engines. Each request
// that submit() accepts gives exactly one event with `last` set, even if it is cancelled or its
// engine is destroyed. Destroying the queue cancels its requests and drops unread events.
//
// Threads: all methods may be called from any thread. Each event goes to one reader only. No lock
// is held while a caller's code runs.
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
  // Fails with kResourceExhausted if the process has no descriptor left.
  static Result<std::unique_ptr<CompletionQueue>> create();
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Returns the next completion, if there is one, without waiting.
  std::optional<Completion> poll();
  // Waits for the next completion. Returns nothing if no request is outstanding, since nothing
  // could come.
  std::optional<Completion> next();
  // Waits up to `timeout` for the next completion, even if no request is outstanding.
  std::optional<Completion> next_for(std::chrono::milliseconds timeout);

  // Returns a descriptor for poll(2), epoll(7) and the like. It is readable (level-triggered) while
  // poll() would return something. The queue owns it; do not read or close it.
  int fd() const;
  // Returns the number of submitted requests whose last event has not been taken.
  int64_t outstanding() const;

  // Returns the engine's side of the queue.
  const std::shared_ptr<EventQueue>& events() const { return events_; }

 private:
  explicit CompletionQueue(std::shared_ptr<EventQueue> events);
  std::shared_ptr<EventQueue> events_;
};

}  // namespace forerun
