// Many requests at once on one engine: arrivals, a limit of how many are in flight, strategies in
// turn on the same requests, tokens compared with plain decoding's.
//
// The limit and the arrivals are those of serving benchmarks: a request is submitted when it is due
// and fewer than `concurrency` are in flight, so arrivals "all" with a limit are a closed loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "runner/arrivals.h"
#include "runner/load_stats.h"

namespace forerun::bench {

struct LoadOptions {
  // Request i takes prompt i modulo their number; as tokens.
  std::vector<std::vector<int32_t>> prompts;
  SpeculationOptions speculation;       // strategy aside; each takes of it what it uses
  std::vector<std::string> strategies;  // the first is the baseline
  std::vector<float> temperatures = {0.0f};
  SamplingOptions sampling;  // temperature and seed aside
  uint64_t first_seed = 0;   // request i uses first_seed + i; of the arrivals, too
  int32_t max_new_tokens = 128;
  int warmups = 1;             // requests before anything is counted
  int repeats = 1;             // of each row; the run with the highest throughput counts
  bool reuse_prompts = false;  // share KV among requests that begin alike

  int requests = 0;                      // 0: as many as may be in flight
  std::vector<int> concurrencies = {0};  // the most in flight, a row each; 0: no limit
  Arrivals arrivals;
  // Decodes every request plainly too, unless the first strategy is autoregressive, and says how
  // many tokens lists are the same: under any strategy, concurrency and moment of arrival they are.
  bool compare = false;
  // Reads the engine's trace (EngineOptions::trace) for the host's time a result.
  bool host_time = false;

  // Called after each finished request: done so far and in all.
  std::function<void(int done, int total)> on_progress;
  // As of TimedQueue. Where it was stopped, rows of the passes that had come to their end come
  // back.
  std::function<bool()> stop;
};

// Rows by temperature, then concurrency, then strategy. The first failure of a request ends it all:
// the others are cancelled and its Status comes back.
Result<std::vector<LoadRow>> run_load(Engine& engine, const LoadOptions& options);

}  // namespace forerun::bench
