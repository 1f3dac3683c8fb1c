// An HTTP request and its response, as handlers see them. Plain data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;  // id of the exchange: the client's X-Request-Id where it is fit, else a new one
  unsigned version = 11;  // 10: HTTP/1.0
  std::string method;     // "GET"
  std::string path;       // without the query, %XX decoded; "*": OPTIONS of the whole server
  std::string query;      // behind the '?', as it came
  HttpHeaders headers;
  std::string body;
  // The body's part of the memory for bodies (body_budget.h), until the last copy of it goes.
  std::shared_ptr<const void> body_memory;

  // The first header of this name, whatever its case; empty: there is none, or it is empty.
  std::string_view header(std::string_view name) const;
  size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // headers beside type, length and id
};

// Whether both are equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);
// Whether the byte may be part of a token of RFC 9110 (5.6.2), such as a method or a header's name.
bool is_token_char(char byte);
// The members of a list, such as that of `Expect`, over all headers of that name, without white
// space. Empty members are included; the caller decides whether to skip them, as RFC 9110 (5.6.1)
// allows.
std::vector<std::string> list_of(const HttpHeaders& headers, std::string_view name);

}  // namespace forerun::server
