// Takes the answer to one HTTP request from its handler: as a whole, or as a stream of server-sent
// events.
//
// Thread rules: any thread, one at a time; answers are passed to the loop's thread and written
// there. The connection may close at any time; sending then has no effect.
#pragma once

#include <functional>
#include <string>

#include "server/http/http_message.h"

namespace forerun::server {

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Sends the whole answer. Call either this function once, or the three functions below in order.
  virtual void respond(HttpResponse response) = 0;

  // Sends status 200 and the headers of a stream of server-sent events.
  virtual void begin_events() = 0;
  // Sends "data: ..." and an empty line; `event` is the event's type, if not empty. Neither may
  // contain a line break.
  virtual void send_event(const std::string& data, const std::string& event = {}) = 0;
  virtual void end_events() = 0;

  // Calls `on_gone`, on the loop's thread, if the client leaves before the end of its answer, or
  // reads so slowly that it is dropped; at once if it has already left. Not called after the end.
  virtual void when_gone(std::function<void()> on_gone) = 0;
};

}  // namespace forerun::server
