// Sums of score and the target's noise, only for the sampler and the draft's candidates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "sampling/sampler.h"

namespace forerun {

// The noise of up to this many kept tokens is computed one by one; more tokens are searched.
inline constexpr size_t kMaxListed = 1024;

inline uint32_t target_bits(const RowContext& context, TokenId token) {
  return noise_bits(context.params->seed, NoiseStream::kTarget, context.position,
                    static_cast<uint32_t>(token));
}

inline float noisy_score(const ProcessedRow& row, const RowContext& context,
                         const RankedToken& token) {
  return row.score_of(token.logit) + gumbel_noise(target_bits(context, token.token));
}

inline double log_total(uint64_t fixed) {
  return std::log(static_cast<double>(fixed) / kFixedWeightScale);
}

// Calls `offer` with tokens and their sums of score and noise, including every token with a sum
// that reaches the present value of `least()`. Works on four blocks at a time: from random bits
// alone the kernel finds the few tokens with noise that may be large enough, and computes
// logarithms only for those that can still reach the bound.
template <class Least, class Offer>
void offer_from_all(const ProcessedRow& row, const RowContext& context, SamplerScratch& scratch,
                    const Least& least, const Offer& offer) {
  constexpr int64_t kBlocks = 4;
  const std::span<const float> logits = row.scan.logits().values;
  const TokenId first_token = row.scan.logits().first_token;
  const auto count = static_cast<int64_t>(logits.size());
  const int64_t blocks = (count + kScanBlock - 1) / kScanBlock;
  const uint64_t seed = context.params->seed;
  const NoiseKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                     static_cast<uint32_t>(context.position),
                     static_cast<uint32_t>(NoiseStream::kTarget),
                     static_cast<uint32_t>(first_token)};
  scratch.survivors.resize(static_cast<size_t>(kBlocks * kScanBlock));
  const ScanKernels& kernels = scan_kernels();
  for (int64_t block = 0; block < blocks; block += kBlocks) {
    const int32_t found = kernels.noise_survivors(
        logits.data(), count, row.scan.lane_max().data(), row.scale, key, least(), block,
        std::min(block + kBlocks, blocks), scratch.survivors.data());
    if (found == 0) continue;
    const std::span<Survivor> survivors(scratch.survivors.data(), static_cast<size_t>(found));
    // The token with the largest bound comes first, since it excludes most of the others.
    std::swap(survivors[0], *std::max_element(survivors.begin(), survivors.end(),
                                              [](const Survivor& a, const Survivor& b) {
                                                return a.bound < b.bound;
                                              }));
    for (const Survivor& survivor : survivors) {
      const RankedToken token{logits[static_cast<size_t>(survivor.token)],
                              first_token + survivor.token};
      const bool masked = !(token.logit > -std::numeric_limits<float>::infinity());
      if (masked || survivor.bound < least() || !row.keeps(token)) continue;
      offer(row.score_of(token.logit) + gumbel_noise(survivor.noise_bits), token.token);
    }
  }
}

}  // namespace forerun
