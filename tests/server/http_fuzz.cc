// Sends any bytes on a connection. It must be answered or closed, in the same way however the bytes
// were cut into pieces, and answers must be HTTP responses. Nothing may be left open once the
// client is done.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/beast/http/buffer_body.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/access_policy.h"
#include "server/http/connection.h"
#include "server/http/event_loop_impl.h"

namespace {

using namespace forerun::server;
namespace asio = boost::asio;

// Bytes below a blank's, and above ASCII, stand for parts of requests, so that short inputs reach
// deep. Line ends are among them.
constexpr std::string_view kParts[] = {
    "\r\n",
    "\r\n\r\n",
    "GET ",
    "POST ",
    "HEAD ",
    "OPTIONS ",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "\t",
    "\n",
    "/stream",
    "/drop",
    "/health",
    "\r",
    "Host: localhost\r\n",
    "Host: ",
    "Content-Length: ",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: ",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Connection: ",
    "Content-Type: application/json\r\n",
    "Expect: 100-continue\r\n",
    "Authorization: Bearer key\r\n",
    "Origin: http://localhost\r\n",
    "X-Request-Id: ",
    "0\r\n\r\n",
    "0\r\nX: ",
    "5\r\nabcde\r\n",
    "ffffffffffffffff\r\n",
    "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
};
constexpr std::string_view kLongParts[] = {
    "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    "POST /stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "\r\n folded",
    "Upgrade: h2c\r\n",
    "\xff",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Content-Encoding: gzip\r\n",
    "Expect: more\r\n",
    "GET http://localhost/health HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT localhost:80 HTTP/1.1\r\n",
    "/%68ealth",
    "%00",
    "5;name=\"value\"\r\nabcde\r\n",
    "0\r\nX-Trailer: a\r\nContent-Length: 5\r\n\r\n",
    "GET /health HTTP/1.1\nHost: localhost\n\n",
    "Access-Control-Request-Headers: x-stainless-os, \x7f\r\n",
};

std::string unpack(const uint8_t* data, size_t size) {
  std::string text;
  for (size_t idx = 0; idx < size; ++idx) {
    const uint8_t byte = data[idx];
    if (byte < std::size(kParts)) {
      text += kParts[byte];
    } else if (byte >= 0x80) {
      text += kLongParts[byte % std::size(kLongParts)];
    } else {
      text += static_cast<char>(byte);
    }
  }
  return text;
}

[[noreturn]] void fail(const char* what, const std::string& input, const std::string& output) {
  std::fprintf(stderr, "%s\ninput:\n%s\noutput:\n%s\n", what, input.c_str(), output.c_str());
  std::abort();
}

// The parser finds a header that is too long some bytes sooner where it comes in pieces.
bool header_was_too_long = false;

HttpOptions small_limits() {
  HttpOptions options;
  options.max_header_bytes = 512;
  options.max_body_bytes = 256;
  return options;
}

HttpHandlers handlers(const AccessPolicy& access) {
  HttpHandlers made;
  made.refuse = [&access](const HttpRequest& head) -> std::optional<HttpResponse> {
    const auto refusal = access.refuse(head);
    if (!refusal) return std::nullopt;
    HttpResponse response;
    response.status = refusal->status;
    response.body = refusal->message;
    return response;
  };
  made.handle = [](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/drop") return;  // the connection answers 500
    if (request.path == "/stream") {
      exchange->begin_events();
      exchange->send_event(std::to_string(request.body.size()), "");
      exchange->send_event("x", "kind");
      return exchange->end_events();
    }
    HttpResponse response;
    response.body = request.method + " " + request.path + " " + request.body;
    exchange->respond(std::move(response));
  };
  made.headers = [&access](const HttpRequest& head) { return access.cors_headers(head); };
  // Which of several faults is named depends on what had come when the first one was seen.
  made.failure = [](int status, const std::string& /*message*/) {
    header_was_too_long = header_was_too_long || status == 431;
    HttpResponse response;
    response.status = 400;
    return response;
  };
  return made;
}

// Removes a header whose value differs from run to run.
void drop_header(std::string& output, std::string_view name) {
  for (size_t at = output.find(name); at != std::string::npos; at = output.find(name, at)) {
    output.erase(at, output.find("\r\n", at) + 2 - at);
  }
}

// The server's output when the client sends `input` in pieces of `piece` bytes and then shuts down
// its sending side.
std::string answer_to(const std::string& input, size_t piece, const AccessPolicy& access) {
  static EventLoop loop;
  static const HttpOptions options = small_limits();
  asio::io_context& context = loop.impl().context;
  const HttpHandlers handling = handlers(access);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  bool is_closed = false;
  std::string output;
  {
    auto connection = std::make_shared<Connection>(
        asio::ip::tcp::socket(context, asio::ip::tcp::v4(), ends[0]), options, handling,
        std::make_shared<BodyBudget>(options.body_memory_bytes),
        [&is_closed](Connection*) { is_closed = true; });
    connection->start();
    const auto turn = [&] {
      context.restart();
      const bool has_worked = context.poll() > 0;
      std::array<char, 4096> bytes{};
      bool has_come = false;
      while (true) {
        const ssize_t count = ::recv(ends[1], bytes.data(), bytes.size(), 0);
        if (count <= 0) return has_worked || has_come;
        has_come = true;
        output.append(bytes.data(), static_cast<size_t>(count));
      }
    };
    for (size_t at = 0; at < input.size() && !is_closed; at += piece) {
      const size_t count = std::min(piece, input.size() - at);
      if (::send(ends[1], input.data() + at, count, MSG_NOSIGNAL) < 0) break;
      while (turn()) {
      }
    }
    ::shutdown(ends[1], SHUT_WR);
    for (int tries = 0; tries < 3 || !is_closed; ++tries) {
      if (tries == 1000) fail("a connection stays open", input, output);
      turn();
    }
  }
  ::close(ends[1]);
  drop_header(output, "Date: ");
  drop_header(output, "X-Request-Id: req-");
  return output;
}

// A last chunk that comes byte by byte; it was read wrongly once.
constexpr std::string_view kChunksByTheByte =
    "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: "
    "chunked\r\n\r\n0\r\n\r\n";

// A request that is hidden in the body of another one.
constexpr std::string_view kHidden =
    "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
constexpr std::string_view kCodings[] = {"identity", "gzip", "xchunked", "chunked, identity", ""};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  const std::string input(kChunksByTheByte);
  const AccessPolicy open(AccessOptions{});
  const std::string whole = answer_to(input, input.size(), open);
  if (!whole.starts_with("HTTP/1.1 200") || answer_to(input, 1, open) != whole) {
    fail("a last chunk by the byte is answered in another way", input, whole);
  }
  for (const std::string_view coding : kCodings) {
    const std::string hiding = std::string(kHidden) + "Transfer-Encoding: " + std::string(coding) +
                               "\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const std::string answer = answer_to(hiding, hiding.size(), open);
    if (answer.find("HTTP/1.1", 1) != std::string::npos) {
      fail("a body is taken for a request", hiding, answer);
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const AccessPolicy open(AccessOptions{});
  static const AccessPolicy guarded(AccessOptions{
      .api_keys = {{"key"}}, .hosts = {"localhost"}, .cors_origins = {"http://localhost"}});
  const AccessPolicy& access = (data[0] & 1) != 0 ? guarded : open;
  const std::string input = unpack(data + 2, size - 2);
  header_was_too_long = false;
  const std::string whole = answer_to(input, input.size() + 1, access);
  if (!whole.empty() && !whole.starts_with("HTTP/1.1 ") && !whole.starts_with("HTTP/1.0 ")) {
    fail("no HTTP", input, whole);
  }
  const std::string pieces = answer_to(input, size_t{1} + data[1] % 64, access);
  if (pieces != whole && !header_was_too_long) {
    fail("pieces are answered in another way", input, whole + "\npieces' output:\n" + pieces);
  }
  return 0;
}
