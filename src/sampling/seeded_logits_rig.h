// Makes logits that are a function of a seed, with ties.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/noise.h"

namespace forerun {

inline uint32_t random_word(uint64_t seed, uint32_t index) {
  return noise_bits(seed, NoiseStream::kResidual, 1, index);
}

// Returns logits [vocab] in eighths from 0 to `spread`, so that there are ties. With every third
// seed, each fifth token is -infinity.
inline std::vector<float> random_logits(int32_t vocab, uint64_t seed, float spread) {
  std::vector<float> logits;
  for (int32_t token = 0; token < vocab; ++token) {
    const float uniform = noise_uniform(random_word(seed, static_cast<uint32_t>(token)));
    logits.push_back(std::floor(uniform * spread * 8.0f) / 8.0f);
  }
  if (seed % 3 == 0) {
    for (size_t token = 0; token < logits.size(); token += 5) {
      logits[token] = -std::numeric_limits<float>::infinity();
    }
  }
  return logits;
}

}  // namespace forerun
