// Prompts × strategies × temperatures on one engine. For each prompt the strategies run one after
// the other, so that a machine whose speed drifts treats them alike; ratios are taken prompt by
// prompt.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::bench {

struct RunnerOptions {
  std::vector<std::string> prompts;
  SpeculationOptions speculation;       // strategy aside
  std::vector<std::string> strategies;  // the first is the baseline
  std::vector<float> temperatures = {0.0f};
  SamplingParams sampling;  // temperature and seed aside
  uint64_t first_seed = 1;  // prompt i uses first_seed + i
  int32_t max_new_tokens = 128;
  int warmups = 1;  // requests before anything is counted
  int repeats = 3;  // the fastest of so many counts, per prompt
  // Every prompt is sent once before it counts, and its KV is shared with those that do. Otherwise
  // each request reads its prompt itself.
  bool reuse_prompts = false;
  // Called before each request: done so far and in all.
  std::function<void(int done, int total)> on_progress;
};

// One strategy at one temperature over all prompts. Medians over prompts.
struct RunnerRow {
  std::string strategy;
  float temperature = 0.0f;
  double tokens_per_s = 0.0;
  double tokens_per_step = 0.0;
  double acceptance = 0.0;
  double draft_steps_per_step = 0.0;
  double time_to_first_token_ms = 0.0;
  double step_ms = 0.0;    // decoding time per target step, drafting included
  double target_ms = 0.0;  // of a target Step alone, and of a draft Step; 0: none
  double draft_ms = 0.0;
  double ratio_to_baseline = 0.0;  // of total decoding time for the same tokens
  double ratio_worst = 0.0;        // the worst prompt's
  int identical = 0;               // prompts whose tokens equal the baseline's
  int prompts = 0;
};

// Fails with the first request's failure.
Result<std::vector<RunnerRow>> run(Engine& engine, const RunnerOptions& options);

}  // namespace forerun::bench
