// One HTTP exchange as handlers see it: what was asked, and what is answered. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string id;  // of this exchange: the client's X-Request-Id where it is fit, else a new one
  std::string method;  // "GET"
  std::string path;    // without the query
  std::string query;   // behind the '?', as it came
  HttpHeaders headers;
  std::string body;

  // The first header of this name, whatever its case; empty: there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // beyond type, length and id
};

// Whether both are equal but for the case of ASCII letters.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace forerun::server
