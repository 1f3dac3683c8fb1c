// Which requests are greedy: the most likely token is taken, and none is drawn.
#pragma once

#include "forerun/sampling_params.h"

namespace forerun {

// Temperatures below it count as greedy, since scores would overflow.
inline constexpr float kGreedyTemperature = 1e-5f;
inline bool is_greedy(const SamplingParams& params) {
  return params.temperature < kGreedyTemperature;
}

}  // namespace forerun
