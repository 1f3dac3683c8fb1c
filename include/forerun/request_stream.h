// A caller's hold on a submitted request: to end it, and to read it.
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
  // Ends the request soon; its last event then says kCancelled, unless it had ended already. From
  // any thread; takes locks, so not from a signal handler.
  virtual void cancel() = 0;
  // Lets the request, all its samples, go on by other options from their next round on, also while
  // it waits to begin. Checked as Request::speculation is, and refused with the same messages;
  // nothing changes then. No text is read again and none comes again; which tokens come does not
  // change (accept "match"). Of several calls the last one counts; a request that has ended is left
  // as it is. From any thread.
  virtual Status change_speculation(const SpeculationOptions& options) = 0;
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
