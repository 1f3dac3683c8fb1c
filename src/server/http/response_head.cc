#include "server/http/response_head.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>
#include <ctime>
#include <sstream>
#include <utility>

namespace forerun::server {
namespace {

namespace http = boost::beast::http;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, length);
}

}  // namespace

std::string response_head(const HttpResponse& response, const HttpHeaders& more,
                          const HttpRequest& request, const ResponseFraming& framing) {
  http::response<http::empty_body> head(static_cast<http::status>(response.status),
                                        framing.version);
  head.set(http::field::date, http_date());
  head.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) head.set(name, value);
  for (const auto& [name, value] : more) head.set(name, value);
  if (!request.id.empty()) head.set("X-Request-Id", request.id);
  if (framing.is_stream && framing.version >= 11) head.chunked(true);
  if (!framing.is_stream) head.content_length(response.body.size());
  head.keep_alive(framing.keep_alive);
  std::ostringstream text;
  text << head.base();
  return std::move(text).str();
}

}  // namespace forerun::server
