// Runs prompts × strategies × temperatures on one engine. The strategies run one after the other
// for each prompt, so that a drift of the machine's speed affects them equally. Ratios are computed
// prompt by prompt.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "runner/summary.h"

namespace forerun::bench {

struct RunnerOptions {
  std::vector<std::string> prompts;
  // Without the strategy; each strategy takes the options that it uses.
  SpeculationOptions speculation;
  std::vector<std::string> strategies;  // the first is the baseline
  std::vector<float> temperatures = {0.0f};
  SamplingOptions sampling;  // without temperature and seed
  uint64_t first_seed = 1;   // prompt i uses first_seed + i
  int32_t max_new_tokens = 128;
  int warmups = 1;  // number of uncounted requests at the start
  int repeats = 3;  // runs per prompt; the fastest counts
  // Sends every prompt once before it counts, and shares its KV with the counted requests.
  // Otherwise each request reads its prompt itself.
  bool reuse_prompts = false;
  // Called before each request with the number done so far and the total.
  std::function<void(int done, int total)> on_progress;
  // Called every kStopPoll while a request runs; once it returns true, the request is cancelled and
  // no other begins.
  std::function<bool()> stop;
};

// Fails with the failure of the first request that fails. After a stop, returns rows over the
// prompts that every strategy has answered at least once; none if there is no such prompt.
Result<std::vector<RunnerRow>> run(Engine& engine, const RunnerOptions& options);

}  // namespace forerun::bench
