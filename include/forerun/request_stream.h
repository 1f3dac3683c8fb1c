// Handles of submitted requests; they cancel, change and read a request.
#pragma once

#include <chrono>
#include <optional>

#include "forerun/event.h"
#include "forerun/speculation_options.h"
#include "forerun/status.h"

namespace forerun {

// A request whose events go to a CompletionQueue. It may outlive the engine and the queue. Dropping
// the last pointer to it cancels the request.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Ends the request soon; its last event then says kCancelled, unless it had ended before. May be
  // called from any thread, but not from a signal handler, since it takes locks.
  virtual void cancel() = 0;
  // Changes the speculation options of the request; each of its samples uses them from its next
  // round on. The request may still be waiting. The options are checked like Request::speculation;
  // if they are refused, nothing changes. The prompt is not read again, events repeat no text, and
  // the tokens do not change (accept "match"). After several calls the last one counts. Does
  // nothing if the request has ended. May be called from any thread.
  virtual Status change_speculation(const SpeculationOptions& options) = 0;
};

// A request whose reader waits for events. One reader at a time; it may outlive the engine.
class RequestStream : public RequestHandle {
 public:
  // Waits for the next event. Returns nothing after the last one.
  virtual std::optional<Event> next() = 0;
  // Does what next() does, but returns nothing after `timeout`.
  virtual std::optional<Event> next_for(std::chrono::milliseconds timeout) = 0;
};

}  // namespace forerun
