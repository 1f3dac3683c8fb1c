// The server's metrics for Prometheus. May be used from any thread.
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

  // Counts the answer to an HTTP request. `route` is one of a few fixed names, never a client's
  // text.
  void count_answer(const std::string& route, int status);
  // Records that `tokens` tokens came `seconds` after the previous ones.
  void observe_tokens(double seconds, size_t tokens);
  // Records that a sample has ended `seconds` after its request arrived.
  void observe_end(const RequestStats& stats, FinishReason reason, double seconds);

  // Returns all metrics in Prometheus' text format, with the present load and number of open
  // connections.
  std::string text(const EngineLoad& load, int connections);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::server
