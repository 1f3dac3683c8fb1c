// A caller's hold on a submitted request: to end it, and to read it.
#pragma once

#include <chrono>
#include <optional>

#include "forerun/event.h"

namespace forerun {

// A request whose events go to a CompletionQueue. It may outlive the engine and the queue. Dropping
// the last pointer to it cancels the request.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Ends the request soon; its last event then says kCancelled, unless it had ended already. From
  // any thread; takes locks, so not from a signal handler.
  virtual void cancel() = 0;
};

// A request that is read by waiting for it. One reader at a time; it may outlive the engine.
class RequestStream : public RequestHandle {
 public:
  // Waits for the next event; nothing after the last one.
  virtual std::optional<Event> next() = 0;
  // As next(), but gives up after `timeout`.
  virtual std::optional<Event> next_for(std::chrono::milliseconds timeout) = 0;
};

}  // namespace forerun
