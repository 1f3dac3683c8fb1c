// `forerun serve` without a model: its HTTP and API over a null engine, which emits tokens at a
// fixed rate. http_load measures the server's own costs with it.
//
//   null_server --model models/demo-target --port 8081 --step-ms 10 --max-requests 256
//
// Prints its address, as `forerun serve` does, and ends at the first SIGINT or SIGTERM.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/api_server.h"
#include "serving/null_engine.h"

namespace forerun::bench {
namespace {

struct Arguments {
  NullEngine::Options engine;
  server::HttpOptions http;
  double step_ms = 10.0;
};

Status serve(const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<NullEngine> engine,
                           NullEngine::create(arguments.engine));
  FORERUN_ASSIGN_OR_RETURN(const server::ChatFormat format,
                           server::find_chat_format(*engine, "auto", "auto"));
  server::EventLoop loop;
  FORERUN_ASSIGN_OR_RETURN(const auto api,
                           server::ApiServer::create(*engine, loop, {}, {}, format));
  FORERUN_ASSIGN_OR_RETURN(const auto http,
                           server::HttpServer::listen(loop, arguments.http, api->handlers()));
  api->count_connections_by([&http] { return http->connections(); });
  FORERUN_RETURN_IF_ERROR(loop.on_signals({SIGINT, SIGTERM}, [&](int) {
    http->close_all();
    loop.stop();
  }));
  std::printf("Serving no model on http://%s:%d\n", arguments.http.host.c_str(), http->port());
  std::fflush(stdout);
  loop.run();
  return {};
}

}  // namespace
}  // namespace forerun::bench

int main(int argc, char** argv) {
  forerun::bench::Arguments arguments;
  CLI::App app("forerun serve's HTTP and API over an engine without a model");
  app.add_option("--model", arguments.engine.model, "Whose tokenizer and chat template it has")
      ->required();
  app.add_option("--host", arguments.http.host)->capture_default_str();
  app.add_option("--port", arguments.http.port, "0: any free one")->capture_default_str();
  app.add_option("--step-ms", arguments.step_ms, "From one token of a request to the next")
      ->check(CLI::Range(0.001, 60'000.0))
      ->capture_default_str();
  app.add_option("--tokens-per-step", arguments.engine.tokens_per_step,
                 "Tokens that a request gets at once, in one event")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--max-requests", arguments.engine.max_active, "As forerun serve's")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-waiting", arguments.engine.max_waiting, "As forerun serve's")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  arguments.engine.step =
      std::chrono::microseconds(static_cast<int64_t>(arguments.step_ms * 1000.0));
  const forerun::Status served = forerun::bench::serve(arguments);
  if (!served.ok()) std::fprintf(stderr, "null_server: %s\n", served.message().c_str());
  return served.ok() ? 0 : 1;
}
