// Which requests are greedy: the likeliest token comes out, and nothing is drawn.
#pragma once

#include "forerun/sampling_params.h"

namespace forerun {

// Temperatures below it are greedy: scores would overflow.
inline constexpr float kGreedyTemperature = 1e-5f;
inline bool is_greedy(const SamplingParams& params) {
  return params.temperature < kGreedyTemperature;
}

}  // namespace forerun
