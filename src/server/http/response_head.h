// The head of an answer: its status line and headers.
#pragma once

#include <string>

#include "server/http/http_message.h"

namespace forerun::server {

// The framing of an answer.
struct ResponseFraming {
  unsigned version = 11;  // version of the request: 10, HTTP/1.0, does not support chunks
  bool is_stream = false;
  bool keep_alive = true;
};

// Returns the head of the answer to `request`, including the empty line after it. `more`: headers
// in addition to those of `response`.
std::string response_head(const HttpResponse& response, const HttpHeaders& more,
                          const HttpRequest& request, const ResponseFraming& framing);

}  // namespace forerun::server
