// Runs a load of concurrent requests on one engine, with arrival times and a limit on requests in
// flight. Each strategy runs the same requests, and tokens are compared with plain decoding's.
//
// Limit and arrivals work as in serving benchmarks: a request is submitted once it is due and fewer
// than `concurrency` are in flight, so arrivals "all" with a limit are a closed loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "runner/arrivals.h"
#include "runner/load_stats.h"

namespace forerun::bench {

struct LoadOptions {
  // Prompts as tokens. Request i takes prompt i modulo their number.
  std::vector<std::vector<int32_t>> prompts;
  // Without the strategy; each strategy takes the options that it uses.
  SpeculationOptions speculation;
  std::vector<std::string> strategies;  // the first is the baseline
  std::vector<float> temperatures = {0.0f};
  SamplingOptions sampling;  // without temperature and seed
  uint64_t first_seed = 0;   // request i uses first_seed + i; also the seed of the arrivals
  int32_t max_new_tokens = 128;
  int warmups = 1;             // number of uncounted requests at the start
  int repeats = 1;             // runs of each row; the one with the highest throughput counts
  bool reuse_prompts = false;  // share KV among requests that begin alike

  int requests = 0;                      // 0: as many as may be in flight
  std::vector<int> concurrencies = {0};  // limits on requests in flight, one row each; 0: no limit
  Arrivals arrivals;
  // Also decodes every request plainly, unless the first strategy is autoregressive, and counts the
  // requests with equal tokens. All must be equal, with any strategy, concurrency and arrival time.
  bool compare = false;
  // Reads the engine's trace (EngineOptions::trace) for the host's time per result.
  bool host_time = false;

  // Called after each finished request with the number done so far and the total.
  std::function<void(int done, int total)> on_progress;
  // See TimedQueue. After a stop, run_load() returns the rows of the passes that were complete.
  std::function<bool()> stop;
};

// Returns rows by temperature, then concurrency, then strategy. If a request fails, all others are
// cancelled and its Status is returned.
Result<std::vector<LoadRow>> run_load(Engine& engine, const LoadOptions& options);

}  // namespace forerun::bench
