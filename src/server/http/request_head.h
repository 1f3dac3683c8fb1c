// What a request's head says, decided as RFC 9110 and 9112 have it where a parser leaves it open:
// how long the body is, which host is meant, what the target names. A head in doubt is refused:
// what two readers of it may understand differently is how one request hides in another.
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

// Fills path and query of `head`, whose other fields are there, from the request's target; of a
// target that names a host, Host too. The connection must be closed after a fault.
std::optional<HeadFault> read_head(std::string_view target, HttpRequest& head);

// Whether a request line ends in a version such as "HTTP/2.0".
bool ends_in_http_version(std::string_view line);

}  // namespace forerun::server
