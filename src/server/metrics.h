// What the server tells Prometheus. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "forerun/engine_load.h"
#include "forerun/event.h"

namespace forerun::server {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // An HTTP request was answered. `route` is one of a few names, never what a client made up.
  void count_answer(const std::string& route, int status);
  // `tokens` came `seconds` after those before them.
  void observe_tokens(double seconds, size_t tokens);
  // A sample has ended `seconds` after its request came.
  void observe_end(const RequestStats& stats, FinishReason reason, double seconds);

  // All of it in Prometheus' text format, with the engine's load and the open connections as now.
  std::string text(const EngineLoad& load, int connections);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::server
