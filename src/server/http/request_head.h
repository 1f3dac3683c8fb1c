// Decides by RFC 9110 and 9112 what the HTTP parser leaves open in a request's head: the length of
// the body, the host, and the path in the target. An ambiguous head is refused, since a head that
// two readers understand differently can hide one request in another.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace forerun::server {

struct HeadFault {
  int status = 400;
  std::string message;
};

// Checks `head` and fills in its path and query from the request's target, and Host if the target
// names a host. All other fields of `head` must be filled. The connection must be closed after a
// fault.
std::optional<HeadFault> read_head(std::string_view target, HttpRequest& head);

// Returns whether a request line ends in a version such as "HTTP/2.0".
bool ends_in_http_version(std::string_view line);

}  // namespace forerun::server
