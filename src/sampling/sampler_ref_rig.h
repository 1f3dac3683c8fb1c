// The reference sampler of the tests, in plain loops over all tokens: it sorts all tokens, computes
// the noise of every token and prunes nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "base/noise.h"
#include "forerun/sampling_params.h"
#include "sampling/scan.h"

namespace forerun {

struct ReferenceRow {
  std::vector<float> logits;         // after bias and penalties
  std::vector<int32_t> kept_ranked;  // best first
};

// `sequence` has every token before the position to be sampled.
inline ReferenceRow reference_process(std::vector<float> logits, const SamplingParams& params,
                                      const std::vector<int32_t>& sequence, int32_t prompt_tokens) {
  for (const auto& [token, bias] : params.logit_bias) logits[static_cast<size_t>(token)] += bias;
  std::map<int32_t, int32_t> output_counts;
  for (size_t index = 0; index < sequence.size(); ++index) {
    output_counts[sequence[index]] += static_cast<int32_t>(index) >= prompt_tokens ? 1 : 0;
  }
  for (const auto& [token, count] : output_counts) {
    float& logit = logits[static_cast<size_t>(token)];
    if (params.repetition_penalty != 1.0f) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    logit -= params.frequency_penalty * static_cast<float>(count);
    if (count > 0) logit -= params.presence_penalty;
  }
  ReferenceRow row;
  row.logits = logits;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (std::isfinite(logits[token])) row.kept_ranked.push_back(static_cast<int32_t>(token));
  }
  std::sort(row.kept_ranked.begin(), row.kept_ranked.end(), [&](int32_t a, int32_t b) {
    const float logit_a = logits[static_cast<size_t>(a)];
    const float logit_b = logits[static_cast<size_t>(b)];
    return logit_a > logit_b || (logit_a == logit_b && a < b);
  });
  if (params.temperature == 0.0f) return row;
  const float top = logits[static_cast<size_t>(row.kept_ranked[0])];
  const float inverse = 1.0f / params.temperature;
  const auto score = [&](int32_t token) {
    return (logits[static_cast<size_t>(token)] - top) * inverse;
  };
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.kept_ranked.size()) {
    row.kept_ranked.resize(static_cast<size_t>(params.top_k));
  }
  if (params.top_p < 1.0f) {
    uint64_t total = 0;
    for (int32_t token : row.kept_ranked) total += to_fixed_weight(exp_score(score(token)));
    const auto needed =
        std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(static_cast<double>(params.top_p) *
                                                              static_cast<double>(total))));
    uint64_t sum = 0;
    size_t length = 0;
    while (length < row.kept_ranked.size() && sum < needed) {
      sum += to_fixed_weight(exp_score(score(row.kept_ranked[length++])));
    }
    row.kept_ranked.resize(length);
  }
  if (params.min_p > 0.0f) {
    const auto lowest = static_cast<float>(std::log(static_cast<double>(params.min_p)));
    std::erase_if(row.kept_ranked, [&](int32_t token) { return score(token) < lowest; });
  }
  return row;
}

inline int32_t reference_sample(const ReferenceRow& row, const SamplingParams& params,
                                int32_t position) {
  if (params.temperature == 0.0f) return row.kept_ranked[0];
  const float top = row.logits[static_cast<size_t>(row.kept_ranked[0])];
  const float inverse = 1.0f / params.temperature;
  int32_t best = -1;
  float best_key = 0.0f;
  for (int32_t token : row.kept_ranked) {
    const float key = (row.logits[static_cast<size_t>(token)] - top) * inverse +
                      gumbel_noise(noise_bits(params.seed, NoiseStream::kTarget, position,
                                              static_cast<uint32_t>(token)));
    if (best < 0 || key > best_key || (key == best_key && token < best)) {
      best = token;
      best_key = key;
    }
  }
  return best;
}

}  // namespace forerun
