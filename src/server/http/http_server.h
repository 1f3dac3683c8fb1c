// HTTP/1.1 on one thread: accepts connections, reads requests within limits, passes them to a
// handler, and writes its answers. Connections stay open between requests.
//
// The resources of clients are limited to `max_connections` descriptors; `max_header_bytes` and
// `max_body_bytes` of memory for `header_time` and `body_time`, counted from a request's first
// byte; and `max_unsent_bytes` of an answer that is not read. All bodies together may take
// `body_memory_bytes`, each from its first byte until its request has been released. A client that
// exceeds a limit gets the matching status (400, 408, 413, 431, 503) and is disconnected. If
// descriptors run out, new connections wait; nothing else happens.
//
// A client that shuts down its sending side still gets its answer; one that has gone is noticed by
// its system's reply to an interim answer (decision 46).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "server/http/event_loop.h"
#include "server/http/exchange.h"
#include "server/http/http_message.h"

namespace forerun::server {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or a name that resolves to one
  uint16_t port = 8080;            // 0: any free port
  int32_t max_connections = 0;     // 0: as many as the process may have descriptors
  int64_t max_header_bytes = 16 << 10;
  int64_t max_body_bytes = 8 << 20;
  int64_t body_memory_bytes = 128 << 20;
  int64_t max_unsent_bytes = 8 << 20;
  std::chrono::milliseconds header_time{10'000};      // for a header, from its first byte
  std::chrono::milliseconds body_time{60'000};        // for a body, from the header's end
  std::chrono::milliseconds body_stall_time{10'000};  // from one piece of a body to the next
  // Interval of the checks whether a client that sends no more is still there.
  std::chrono::milliseconds ask_every{5'000};
  std::chrono::milliseconds idle_time{300'000};  // between requests
  std::chrono::milliseconds write_time{60'000};  // for a client to read one write
};

struct HttpHandlers {
  // Called once the headers have arrived, before a body is read. Returns an answer that refuses the
  // request, or nothing.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> refuse;
  // Called with each whole request. Both functions run on the loop's thread and must not block.
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handle;
  // Returns additional headers for every answer to this request.
  std::function<HttpHeaders(const HttpRequest& head)> headers;
  // Returns the answer to an invalid request.
  std::function<HttpResponse(int status, const std::string& message)> failure;
};

class HttpServer {
 public:
  // Listens now, and accepts connections once the loop runs. `loop` must outlive the server, and
  // run until drain() has called back, or be stopped before the server is destroyed. Fails with
  // kInvalidArgument if it cannot listen on the address.
  static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, const HttpOptions& options,
                                                    HttpHandlers handlers);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  virtual int32_t connections() const = 0;
  // Accepts no more connections and ends those without a request at once, the others after their
  // answers. Calls `done` when the last one has ended. Must be called on the loop's thread.
  virtual void drain(std::function<void()> done) = 0;
  // Refuses all requests that have not arrived whole with 503.
  virtual void cut_off() = 0;
  // Ends all remaining connections.
  virtual void close_all() = 0;
};

}  // namespace forerun::server
