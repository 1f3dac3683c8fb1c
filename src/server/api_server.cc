#include "server/api_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "server/api/model_routes.h"
#include "server/page/page_files.h"

namespace forerun::server {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};
constexpr const char* kEnding = "the server is ending";

constexpr std::array<std::string_view, 9> kGets = {"/",        "/health",    "/ready",
                                                   "/metrics", "/v1/models", "/props",
                                                   "/slots",   "/v1/health", "/version"};

bool takes_get(std::string_view path) {
  return std::find(kGets.begin(), kGets.end(), path) != kGets.end();
}
bool takes_post(std::string_view path) { return find_post_route(path) != nullptr; }
bool is_path(std::string_view path) { return takes_post(path) || takes_get(path); }

const char* methods_of(const std::string& path) {
  if (takes_post(path)) return "POST, OPTIONS";
  return takes_get(path) ? "GET, HEAD, OPTIONS" : "GET, HEAD, POST, OPTIONS";
}

// Answers OPTIONS (RFC 9110, 9.3.7). AccessPolicy decides what a page of another origin may do.
HttpResponse options_of(const HttpRequest& request) {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow", methods_of(request.path));
  return response;
}

// Returns the path's name in metrics: one of a fixed set, for any request.
std::string route_of(const HttpRequest& request) {
  if (is_path(request.path)) return request.path;
  if (request.path.starts_with("/page/")) return "/page/";
  return request.path.starts_with("/v1/models/") ? "/v1/models/" : "other";
}

HttpResponse page_response(const PageFile& file) {
  HttpResponse response;
  response.content_type = file.content_type;
  response.body = file.bytes;
  response.headers = {{"Content-Security-Policy", std::string(kPageSecurityPolicy)},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  return response;
}

// Logs the end of a call as "key=value" pairs; never logs text of a prompt or an answer.
void log_call(const std::string& id, const std::string& route, const CallEnd& end) {
  char figures[192];
  std::snprintf(figures, sizeof(figures),
                " status=%d seconds=%.3f prompt_tokens=%lld cached_tokens=%lld output_tokens=%lld",
                end.status, end.seconds, static_cast<long long>(end.usage.prompt_tokens()),
                static_cast<long long>(end.usage.cached_tokens()),
                static_cast<long long>(end.usage.output_tokens()));
  log_line(LogLevel::kInfo, "request id=" + id + " path=" + route + figures);
}

}  // namespace

ApiServer::ApiServer(EventLoop& loop, AccessOptions access, const ChatFormat& format)
    : loop_(loop), access_(std::move(access)), format_(format) {}

Result<std::unique_ptr<ApiServer>> ApiServer::create(Engine& engine, EventLoop& loop,
                                                     ApiOptions options, AccessOptions access,
                                                     const ChatFormat& format) {
  std::unique_ptr<ApiServer> server(new ApiServer(loop, std::move(access), format));
  server->facts_.info = engine.info();
  server->facts_.options = std::move(options);
  if (server->facts_.options.model_names.empty()) {
    server->facts_.options.model_names.push_back(engine.info().model_name);
  }
  auto client = EngineClient::create(engine, loop);
  if (!client.ok()) return client.status();
  server->client_ = std::move(*client);
  server->workers_ = std::make_unique<WorkerPool>(WorkerPool::Options{});
  return server;
}

HttpHandlers ApiServer::handlers() {
  HttpHandlers handlers;
  handlers.refuse = [this](const HttpRequest& head) { return refuse(head); };
  handlers.handle = [this](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    handle(std::move(request), exchange);
  };
  handlers.headers = [this](const HttpRequest& head) {
    HttpHeaders headers = access_.cors_headers(head);
    headers.emplace_back("X-Content-Type-Options", "nosniff");
    return headers;
  };
  handlers.failure = [](int status, const std::string& message) {
    return error_response(api_error(status, message));
  };
  return handlers;
}

void ApiServer::count_connections_by(std::function<int32_t()> connections) {
  connections_ = std::move(connections);
}

std::optional<HttpResponse> ApiServer::refuse(const HttpRequest& head) const {
  const std::optional<Refusal> refusal = access_.refuse(head);
  if (!refusal) return std::nullopt;
  HttpResponse response = error_response(api_error(refusal->status, refusal->message));
  for (const auto& header : refusal->headers) response.headers.push_back(header);
  return response;
}

void ApiServer::respond(const HttpRequest& request, Exchange& exchange, HttpResponse response) {
  metrics_.count_answer(route_of(request), response.status);
  exchange.respond(std::move(response));
}

HttpResponse ApiServer::ready() const {
  if (draining_) return error_response(api_error(503, kEnding));
  const EngineLoad load = client_->engine().load();
  if (load.condition != EngineCondition::kServing) {
    return error_response(api_error(503, "not ready: " + load.condition_reason));
  }
  return json_response({{"status", "ready"}});
}

HttpResponse ApiServer::health() const {
  if (std::optional<HttpResponse> refusal = refuse_where_given_up()) return std::move(*refusal);
  return json_response({{"status", "ok"}});
}

std::optional<HttpResponse> ApiServer::refuse_where_given_up() const {
  const EngineLoad load = client_->engine().load();
  if (load.condition != EngineCondition::kGivenUp) return std::nullopt;
  return error_response(api_error(503, "given up: " + load.condition_reason));
}

std::optional<HttpResponse> ApiServer::get(const HttpRequest& request) {
  const std::string& path = request.path;
  if (const PageFile* const file = find_page_file(path)) return page_response(*file);
  if (path == "/health" || path == "/v1/health") return health();
  if (path == "/ready") return ready();
  if (path == "/version") return json_response({{"version", FORERUN_VERSION}});
  if (path == "/v1/models") return json_response(models_json(facts_));
  constexpr std::string_view kModel = "/v1/models/";
  if (path.starts_with(kModel)) {
    return response_of(model_json(facts_, path.substr(kModel.size())));
  }
  if (path == "/props") return json_response(props_json(client_->engine(), facts_));
  if (path == "/slots") return json_response(slots_json(client_->engine(), facts_));
  if (path == "/metrics") {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_.text(client_->engine().load(), connections_ ? connections_() : 0);
    return response;
  }
  return std::nullopt;
}

void ApiServer::handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (request.method == "POST") {
    const PostRoute* const route = find_post_route(request.path);
    if (route != nullptr) return post(*route, std::move(request), exchange);
  }
  if (request.method == "OPTIONS") return respond(request, *exchange, options_of(request));
  if (is_get) {
    if (std::optional<HttpResponse> response = get(request)) {
      return respond(request, *exchange, std::move(*response));
    }
  }
  const bool is_known = is_path(request.path);
  const std::string under_v1 = "/v1" + request.path;
  const std::string why = is_known ? std::string(": not a method of this endpoint; accepted: ") +
                                         methods_of(request.path)
                          : is_path(under_v1) ? ": there is no such endpoint, it is " + under_v1
                                              : ": there is no such endpoint";
  const ApiError error = api_error(is_known ? 405 : 404, request.method + " " + request.path + why);
  HttpResponse response = error_response(error);
  if (is_known) {
    response.headers.emplace_back("Allow", methods_of(request.path));
  }
  respond(request, *exchange, std::move(response));
}

void ApiServer::post(const PostRoute& route, HttpRequest request,
                     const std::shared_ptr<Exchange>& exchange) {
  if (draining_) {
    return respond(request, *exchange, error_response(api_error(503, kEnding)));
  }
  if (std::optional<HttpResponse> refusal = refuse_where_given_up()) {
    return respond(request, *exchange, std::move(*refusal));
  }
  const RequestPtr shared = std::make_shared<const HttpRequest>(std::move(request));
  const bool taken = workers_->try_post(
      static_cast<int64_t>(shared->body.size()), [this, &route, shared, exchange] {
        catch_defects(*shared, *exchange, [&] { run_post(route, shared, exchange); });
      });
  if (!taken) refuse_as_full(*shared, *exchange);
}

void ApiServer::refuse_as_full(const HttpRequest& request, Exchange& exchange) {
  ApiError error =
      api_error(429, "too many requests wait to be read; send this request again later");
  error.retry_after = kRetryAfter;
  respond(request, exchange, error_response(error));
}

void ApiServer::catch_defects(const HttpRequest& request, Exchange& exchange,
                              const std::function<void()>& work) try {
  work();
} catch (const std::bad_alloc&) {
  respond(request, exchange, error_response(api_error(503, "out of memory")));
} catch (const std::exception& defect) {  // a library's defect fails only this request
  log_line(LogLevel::kError, "request id=" + request.id + " failed: " + defect.what());
  respond(request, exchange,
          error_response(api_error(500, "the server failed to read this request")));
}

void ApiServer::run_post(const PostRoute& route, const RequestPtr& shared,
                         const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = *shared;
  if (cut_off_) return respond(request, *exchange, error_response(api_error(503, kEnding)));
  PostOutcome outcome = route.read({client_->engine(), facts_, format_, request});
  if (auto* const response = std::get_if<HttpResponse>(&outcome)) {
    return respond(request, *exchange, std::move(*response));
  }
  prepare(shared, exchange, std::move(std::get<GenerationCall>(outcome)));
}

void ApiServer::prepare(const RequestPtr& request, const std::shared_ptr<Exchange>& exchange,
                        GenerationCall call) {
  // The prompts of a call have one format.
  const OutputFormat& format = call.prompts.front().output_format;
  if (client_->engine().prepare_format(format, /*quick=*/true)) {
    return generate(*request, exchange, std::move(call));
  }
  const auto slow = std::make_shared<GenerationCall>(std::move(call));
  const bool taken = workers_->try_post_long([this, request, exchange, slow] {
    catch_defects(*request, *exchange, [&] {
      client_->engine().prepare_format(slow->prompts.front().output_format, /*quick=*/false);
      if (cut_off_) return respond(*request, *exchange, error_response(api_error(503, kEnding)));
      generate(*request, exchange, std::move(*slow));
    });
  });
  if (!taken) refuse_as_full(*request, *exchange);
}

void ApiServer::generate(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange,
                         GenerationCall call) {
  const int32_t min_priority = access_.min_priority_of(request);
  for (Request& prompt : call.prompts) {
    const int32_t found = -prompt.priority;  // with the client's sign
    if (found >= min_priority) continue;
    if (found == 0) {  // the default: most clients do not use priorities
      prompt.priority = -min_priority;
      continue;
    }
    ApiError error =
        api_error(400, "priority: found " + std::to_string(found) + "; accepted: at least " +
                           std::to_string(min_priority) +
                           " (lower values are served first; the server's administrator sets "
                           "how low a client may go)");
    error.param = "priority";
    return respond(request, *exchange, error_response(error));
  }
  // The key's salt comes before the call's own, so that no client can name another key's salt.
  const std::string salt = access_.salt_of(request);
  for (Request& prompt : call.prompts) prompt.cache_salt.insert(0, salt);
  const uint64_t number = ++generations_begun_;
  const auto on_end = [this, number, id = request.id,
                       route = route_of(request)](const CallEnd& end) {
    {
      const std::lock_guard lock(generations_mutex_);
      generations_.erase(number);
    }
    metrics_.count_answer(route, end.status);
    log_call(id, route, end);
  };
  const auto generation = std::make_shared<Generation>(*client_, loop_, metrics_, exchange,
                                                       std::move(call.writer), on_end);
  {
    const std::lock_guard lock(generations_mutex_);
    generations_.emplace(number, generation);
  }
  generation->start(std::move(call.prompts), std::move(call.names), call.prompts_are_listed);
  // This generation may have begun after cut_off() visited those that were running.
  if (cut_off_) loop_.post([generation] { generation->cut_off(kEnding); });
}

void ApiServer::cut_off() {
  cut_off_ = true;
  std::vector<std::shared_ptr<Generation>> running;
  {
    const std::lock_guard lock(generations_mutex_);
    for (const auto& [number, weak] : generations_) {
      if (auto generation = weak.lock()) running.push_back(std::move(generation));
    }
  }
  for (const auto& generation : running) generation->cut_off(kEnding);
}

}  // namespace forerun::server
