// forerun serve: runs the OpenAI-compatible server until Ctrl-C or SIGTERM.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status_macros.h"
#include "commands.h"
#include "flags.h"
#include "interrupt.h"
#include "launch.h"
#include "server/api_server.h"
#include "server/http/api_keys.h"
#include "terminal.h"

namespace forerun::app {
namespace {

constexpr const char* kKeyVariable = "FORERUN_API_KEY";
constexpr int32_t kMaxWaitingRequests = 256;
constexpr std::chrono::seconds kLastWords{2};
constexpr int32_t kRelaunches = 10;  // failures within ten minutes without progress between them

struct ServeFlags {
  EngineOptions engine;
  server::HttpOptions http;
  server::ApiOptions api;
  server::AccessOptions access;
  std::string api_key_file;
  std::string tool_format = "auto";
  std::string reasoning_format = "auto";
  bool public_metrics = false;
  bool isolate = false;
  double header_seconds = 10.0;
  double body_stall_seconds = 10.0;
  double idle_seconds = 300.0;
  double drain_seconds = 30.0;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Status refused(const std::string& message) { return {StatusCode::kInvalidArgument, message}; }

Result<server::AccessOptions> access_options(const ServeFlags& flags) {
  server::AccessOptions access = flags.access;
  access.metrics_need_key = !flags.public_metrics;
  if (const char* const key = std::getenv(kKeyVariable); key != nullptr && *key != '\0') {
    access.api_keys.push_back({key});
  }
  if (!flags.api_key_file.empty()) {
    auto keys = server::read_api_keys(flags.api_key_file);
    if (!keys.ok()) return keys.status().with_context("--api-key-file");
    access.api_keys.insert(access.api_keys.end(), keys->begin(), keys->end());
  }
  // If it also listens for other machines, their names for it are not known here.
  std::vector<std::string> names = server::hosts_of_address(flags.http.host);
  if (!names.empty() || !access.hosts.empty()) {
    access.hosts.insert(access.hosts.end(), names.begin(), names.end());
  }
  return access;
}

// Ends the server at the first signal, once its requests are done or --drain-seconds are over. The
// second signal cuts off the remaining requests; the third one does not wait until they have been
// told.
class Shutdown {
 public:
  Shutdown(server::EventLoop& loop, server::ApiServer& api, server::HttpServer& http,
           double drain_seconds)
      : loop_(loop), api_(api), http_(http), drain_seconds_(drain_seconds) {}

  void on_signal() {
    if (std::exchange(begun_, true)) return cut_off();
    std::cerr << "forerun: ending; running requests have " << drain_seconds_
              << " s to finish, a second signal ends them now" << std::endl;
    api_.begin_drain();
    http_.drain([this] { loop_.stop(); });
    loop_.after(milliseconds(drain_seconds_), [this] { cut_off(); });
  }

 private:
  // Sends an error to the remaining requests; their clients have kLastWords to read it.
  void cut_off() {
    if (std::exchange(cut_off_, true)) return end();
    api_.cut_off();
    http_.cut_off();
    loop_.after(kLastWords, [this] { end(); });
  }

  void end() {
    http_.close_all();
    loop_.stop();
  }

  server::EventLoop& loop_;
  server::ApiServer& api_;
  server::HttpServer& http_;
  const double drain_seconds_;
  bool begun_ = false;
  bool cut_off_ = false;
};

std::string address_of(const ServeFlags& flags, uint16_t port) {
  const bool is_v6 = flags.http.host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + flags.http.host + "]" : flags.http.host) + ":" +
         std::to_string(port);
}

Status run_serve(const ServeFlags& flags) {
  FORERUN_ASSIGN_OR_RETURN(server::AccessOptions access, access_options(flags));
  std::signal(SIGPIPE, SIG_IGN);
  if (flags.isolate) FORERUN_RETURN_IF_ERROR(isolate_engine(kRelaunches));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(flags.engine));
  FORERUN_ASSIGN_OR_RETURN(
      const server::ChatFormat format,
      server::find_chat_format(*engine, flags.tool_format, flags.reasoning_format));
  if (flags.http.body_memory_bytes < flags.http.max_body_bytes) {
    return refused("--body-memory: found " + std::to_string(flags.http.body_memory_bytes) +
                   "; accepted: at least --max-body, " + std::to_string(flags.http.max_body_bytes));
  }
  server::HttpOptions http_options = flags.http;
  http_options.header_time = milliseconds(flags.header_seconds);
  http_options.body_stall_time = milliseconds(flags.body_stall_seconds);
  http_options.idle_time = milliseconds(flags.idle_seconds);
  server::EventLoop loop;
  server::ApiOptions api_options = flags.api;
  api_options.num_slots = flags.engine.max_active_requests;
  FORERUN_ASSIGN_OR_RETURN(
      const std::unique_ptr<server::ApiServer> api,
      server::ApiServer::create(*engine, loop, std::move(api_options), std::move(access), format));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<server::HttpServer> http,
                           server::HttpServer::listen(loop, http_options, api->handlers()));
  api->count_connections_by([&http] { return http->connections(); });
  Shutdown shutdown(loop, *api, *http, flags.drain_seconds);
  FORERUN_RETURN_IF_ERROR(
      loop.on_signals({SIGINT, SIGTERM}, [&shutdown](int) { shutdown.on_signal(); }));
  const std::string address = address_of(flags, http->port());
  std::cout << "Serving " << engine->info().model_name << " on " << address << "\n"
            << "  curl " << address << "/v1/chat/completions -H 'Content-Type: application/json' "
            << R"(-d '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64}')"
            << std::endl;
  loop.run();
  return Status();
}

void add_http_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("--host", flags.http.host,
                  "Address to listen on; 0.0.0.0 is all addresses; then set an API key")
      ->capture_default_str();
  command.add_option("--port", flags.http.port, "Port; 0 is any free one")->capture_default_str();
  command.add_option("--api-key-file", flags.api_key_file,
                     std::string("File of API keys, a key a line; clients send one of them as "
                                 "'Authorization: Bearer KEY'. Also the variable ") +
                         kKeyVariable + " (default: no key is asked for)");
  command
      .add_option(
          "--min-priority", flags.access.min_priority,
          "The least \"priority\" that clients may send; lower ones are served first. A line "
          "KEY min_priority=N in the key file sets another limit for that key")
      ->check(CLI::Range(-server::kMaxPriority, server::kMaxPriority))
      ->capture_default_str();
  command.add_flag("--public-metrics", flags.public_metrics, "/metrics needs no API key");
  command.add_option("--allowed-host", flags.access.hosts,
                     "A name that clients know this server by; may repeat; requests with "
                     "another Host are refused (default: localhost and its addresses where it "
                     "listens there, else any)");
  command.add_option("--cors-origin", flags.access.cors_origins,
                     "Web pages of this origin may use the server; may repeat; * is any "
                     "(default: only its own page)");
  command.add_option("--max-body", flags.http.max_body_bytes, "Most bytes of a request's body")
      ->check(CLI::Range(int64_t{1024}, int64_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--body-memory", flags.http.body_memory_bytes,
                  "Most bytes that the bodies of all requests may take together until they are "
                  "read; a request beyond that gets status 503 with Retry-After")
      ->check(CLI::Range(int64_t{1024}, int64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--max-connections", flags.http.max_connections,
                     "Most open connections (default: as many as the process may have)");
  command
      .add_option("--header-seconds", flags.header_seconds,
                  "How long a request's headers may take to arrive, from the first byte on")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      .add_option("--body-stall-seconds", flags.body_stall_seconds,
                  "How long a request's body may pause before the request is refused (status 408)")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command
      .add_option("--idle-seconds", flags.idle_seconds,
                  "How long a connection may stay open without a request")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "How long requests under way may take at the end, after Ctrl-C or SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

}  // namespace

Command add_serve(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve the model over HTTP, as OpenAI's API has it");
  auto flags = std::make_shared<ServeFlags>();
  flags->engine.max_waiting_requests = kMaxWaitingRequests;
  add_engine_flags(*command, flags->engine);
  add_http_flags(*command, *flags);
  command->add_option("--served-model-name", flags->api.model_names,
                      "A name that clients may ask for; may repeat; answers have the first "
                      "(default: the checkpoint's folder)");
  command
      ->add_option("--max-requests", flags->engine.max_active_requests,
                   "Requests that are decoded at a time")
      ->capture_default_str();
  command
      ->add_option(
          "--max-waiting", flags->engine.max_waiting_requests,
          "Requests that may wait for their turn; further ones are refused, to be sent again "
          "(status 429). -1: any number")
      ->capture_default_str();
  command
      ->add_option("--priority-ageing", flags->engine.priority_ageing_s,
                   "Seconds after which a request that waits gains one level of priority; 0: never")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--isolate", flags->isolate,
                    "Run the engine in its own process: if that dies, it is started "
                    "again, and requests go on from their tokens");
  command
      ->add_option("--tool-format", flags->tool_format,
                   "How the model writes tool calls: auto (by its chat template), none, hermes, "
                   "llama_json, llama_function, mistral, qwen_coder, deepseek")
      ->capture_default_str();
  command
      ->add_option("--reasoning-format", flags->reasoning_format,
                   "How it marks its reasoning: auto (by its chat template), none, think, "
                   "think_box, seed")
      ->capture_default_str();
  command->footer(
      "Example:\n"
      "  forerun serve --model models/demo-target --draft models/demo-draft --port 8080");
  return with_hosts(command, &flags->engine, [flags] { return run_serve(*flags); });
}

}  // namespace forerun::app
