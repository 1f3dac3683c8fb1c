// Prompts × strategies × temperatures on one engine. For each prompt the strategies run one after
// the other, so that a machine whose speed drifts treats them alike; ratios are taken prompt by
// prompt.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "runner/summary.h"

namespace forerun::bench {

struct RunnerOptions {
  std::vector<std::string> prompts;
  SpeculationOptions speculation;       // strategy aside; each takes of it what it uses
  std::vector<std::string> strategies;  // the first is the baseline
  std::vector<float> temperatures = {0.0f};
  SamplingOptions sampling;  // temperature and seed aside
  uint64_t first_seed = 1;   // prompt i uses first_seed + i
  int32_t max_new_tokens = 128;
  int warmups = 1;  // requests before anything is counted
  int repeats = 3;  // the fastest of so many counts, per prompt
  // Every prompt is sent once before it counts, and its KV is shared with those that do. Otherwise
  // each request reads its prompt itself.
  bool reuse_prompts = false;
  // Called before each request: done so far and in all.
  std::function<void(int done, int total)> on_progress;
  // Asked every kStopPoll while a request runs; once it says true, the request is cancelled and no
  // other begins.
  std::function<bool()> stop;
};

// Fails with the first request's failure. Where it was stopped: the rows of what had been measured,
// of prompts that every strategy has answered once at least; none where no prompt was.
Result<std::vector<RunnerRow>> run(Engine& engine, const RunnerOptions& options);

}  // namespace forerun::bench
