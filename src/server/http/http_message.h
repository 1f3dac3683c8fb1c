// An HTTP request and its response, as passed to and from handlers. Plain data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;  // id of the exchange: the client's X-Request-Id if it is valid, else a new one
  unsigned version = 11;  // 10: HTTP/1.0
  std::string method;     // "GET"
  std::string path;       // without the query, %XX decoded; "*": OPTIONS of the whole server
  std::string query;      // text after the '?', unchanged
  HttpHeaders headers;
  std::string body;
  // The body's part of the memory for bodies (body_budget.h), held until the last copy is
  // destroyed.
  std::shared_ptr<const void> body_memory;

  // Returns the first header of this name in any case; empty: there is none, or it is empty.
  std::string_view header(std::string_view name) const;
  size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // headers other than type, length and id
};

// Returns whether both are equal except for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);
// Returns whether the byte may be part of a token of RFC 9110 (5.6.2), such as a method or a
// header's name.
bool is_token_char(char byte);
// Returns the members of a list, such as that of `Expect`, over all headers of that name, without
// white space. Empty members are included; the caller may skip them (RFC 9110, 5.6.1).
std::vector<std::string> list_of(const HttpHeaders& headers, std::string_view name);

}  // namespace forerun::server
