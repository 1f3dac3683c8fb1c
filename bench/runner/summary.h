// Summarizes a strategy's requests over all prompts of a workload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::bench {

// A finished request.
struct RunnerSample {
  std::vector<int32_t> tokens;
  RequestStats stats;
};

// One strategy at one temperature. Rates and times are totals: all tokens over all seconds, so that
// no prompt counts for more than its share; the time to the first token is the median prompt's.
struct RunnerRow {
  std::string strategy;
  float temperature = 0.0f;
  double tokens_per_s = 0.0;
  double tokens_per_step = 0.0;
  double acceptance = 0.0;
  double draft_steps_per_step = 0.0;
  double time_to_first_token_ms = 0.0;
  double step_ms = 0.0;    // decoding time per target step, drafting included
  double target_ms = 0.0;  // time of a target Step alone, and of a draft Step; 0: none
  double draft_ms = 0.0;
  double ratio_to_baseline = 0.0;  // ratio of the total decoding times of the same tokens
  double ratio_worst = 0.0;        // ratio of the worst prompt
  int identical = 0;               // number of prompts with tokens equal to the baseline's
  int prompts = 0;
};

// `baseline` has the samples of the same prompts by the first strategy, as many as `samples`, at
// least one. The caller fills in `temperature`.
RunnerRow summarize(const std::vector<RunnerSample>& samples,
                    const std::vector<RunnerSample>& baseline);

}  // namespace forerun::bench
