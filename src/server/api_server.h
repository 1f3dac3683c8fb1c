// The API server on top of HTTP: routes paths to endpoints, checks access, and counts and logs
// calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "forerun/engine.h"
#include "server/api/chat_format.h"
#include "server/api/generation.h"
#include "server/api/post_routes.h"
#include "server/api/server_facts.h"
#include "server/engine_client.h"
#include "server/http/access_policy.h"
#include "server/http/http_server.h"
#include "server/metrics.h"
#include "server/worker_pool.h"

namespace forerun::server {

class ApiServer {
 public:
  // `engine` and `loop` must outlive the server. Its handlers must not be called after its
  // destruction.
  static Result<std::unique_ptr<ApiServer>> create(Engine& engine, EventLoop& loop,
                                                   ApiOptions options, AccessOptions access,
                                                   const ChatFormat& format);
  HttpHandlers handlers();
  // Sets the function that returns the number of open connections, for /metrics.
  void count_connections_by(std::function<int32_t()> connections);
  // After this call /ready reports that the server is not ready, and new work is refused with 503.
  void begin_drain() { draining_ = true; }
  // Ends the requests that are still being answered, and all later ones, with status 503 or, if a
  // stream has begun, with an error event. Must be called on the loop's thread.
  void cut_off();

 private:
  ApiServer(EventLoop& loop, AccessOptions access, const ChatFormat& format);

  std::optional<HttpResponse> refuse(const HttpRequest& head) const;
  void handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  // Answers a GET request; returns nothing if there is no such path.
  std::optional<HttpResponse> get(const HttpRequest& request);
  void post(const PostRoute& route, HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  using RequestPtr = std::shared_ptr<const HttpRequest>;
  // Does `work`, and answers with 500 or 503 if it throws.
  void catch_defects(const HttpRequest& request, Exchange& exchange,
                     const std::function<void()>& work);
  // Runs on a thread of workers_.
  void run_post(const PostRoute& route, const RequestPtr& request,
                const std::shared_ptr<Exchange>& exchange);
  // Compiles the call's output formats, on the thread for long work if they take long, and
  // generates.
  void prepare(const RequestPtr& request, const std::shared_ptr<Exchange>& exchange,
               GenerationCall call);
  void refuse_as_full(const HttpRequest& request, Exchange& exchange);
  void generate(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange,
                GenerationCall call);
  // Answer `/ready` and `/health`: whether the server accepts requests now, and whether the engine
  // will work again.
  HttpResponse ready() const;
  HttpResponse health() const;
  std::optional<HttpResponse> refuse_where_given_up() const;
  void respond(const HttpRequest& request, Exchange& exchange, HttpResponse response);

  EventLoop& loop_;
  const AccessPolicy access_;
  const ChatFormat format_;
  ServerFacts facts_;
  Metrics metrics_;
  std::function<int32_t()> connections_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> cut_off_{false};
  std::atomic<uint64_t> generations_begun_{0};
  std::mutex generations_mutex_;  // guards the running generations
  std::unordered_map<uint64_t, std::weak_ptr<Generation>> generations_;
  std::unique_ptr<EngineClient> client_;
  std::unique_ptr<WorkerPool> workers_;  // last: its tasks use all other members
};

}  // namespace forerun::server
