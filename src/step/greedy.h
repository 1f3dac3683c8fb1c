// The test for greedy requests, in which the next token is always the most likely one.
#pragma once

#include "forerun/sampling_params.h"

namespace forerun {

// Temperatures below it count as greedy, since scores would overflow.
inline constexpr float kGreedyTemperature = 1e-5f;
inline bool is_greedy(const SamplingParams& params) {
  return params.temperature < kGreedyTemperature;
}

}  // namespace forerun
