// The passes of scan.h, written once over vectors of 16 lanes (kernels/simd/vector.h). Only the
// files per instruction set include it, each with its own copy. Fused multiply-adds are not used,
// since every instruction set must give the same bits.
#pragma once

#include <cstdint>

#include "kernels/simd/vector.h"
#include "sampling/scan.h"

namespace forerun {
namespace {

// Lane 4q + r of a vector of counters has counter 4r + q: transposing every 4 lanes then puts the
// words of 4 consecutive counters, which are 16 consecutive tokens, into each vector.
alignas(64) constexpr int32_t kLaneCounters[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                   2, 6, 10, 14, 3, 7, 11, 15};

template <simd::WordVector V>
inline uint32_t at_least_mask(typename V::F a, typename V::F b) {
  return V::mask_bits(V::at_least(a, b));
}

// Computes Philox 4x32-10 (base/noise.h) on 16 counters; returns 64 words in token order.
template <simd::WordVector V>
inline void philox64(NoiseKey key, uint32_t first_counter, typename V::I out[4]) {
  using I = typename V::I;
  // Counters are in the low halves of 64 bits, even lanes and odd lanes separately: the two halves
  // of a product then need no shuffling, since multiplication ignores the high halves.
  const I counters = V::add_int(V::set1_int(first_counter), V::load_int(kLaneCounters));
  I c0[2] = {counters, V::high_words(counters)};
  I c1[2] = {V::set1_int(key.position), V::set1_int(key.position)};
  I c2[2] = {V::set1_int(key.stream), V::set1_int(key.stream)};
  I c3[2] = {V::set1_int(0x464f5245u), V::set1_int(0x464f5245u)};
  uint32_t k0 = key.seed_low;
  uint32_t k1 = key.seed_high;
  for (int round = 0; round < 10; ++round) {
    for (int odd = 0; odd < 2; ++odd) {
      const I product0 = V::mul_low_words(c0[odd], V::set1_int(0xD2511F53u));
      const I product1 = V::mul_low_words(c2[odd], V::set1_int(0xCD9E8D57u));
      c0[odd] = V::xor3(V::high_words(product1), c1[odd], V::set1_int(k0));
      c1[odd] = product1;
      c2[odd] = V::xor3(V::high_words(product0), c3[odd], V::set1_int(k1));
      c3[odd] = product0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  V::transpose_words(V::interleave_low_words(c0[0], c0[1]), V::interleave_low_words(c1[0], c1[1]),
                     V::interleave_low_words(c2[0], c2[1]), V::interleave_low_words(c3[0], c3[1]),
                     out);
}

// Returns at least -log(-log(u)) for the u that noise_uniform() makes of these bits, and at most
// 0.07 more for u near 1. It uses -log(u) >= 1 - u, and that log2 lies above the chords between
// powers of two, which a float's bits read as an integer follow.
template <simd::WordVector V>
inline typename V::F gumbel_bound(typename V::I bits) {
  using F = typename V::F;
  using I = typename V::I;
  const I doubled =
      V::sub_int(V::set1_int((1u << 25) - 1u),
                 V::template shift_left<1>(V::template shift_right<8>(bits)));  // (1 - u) * 2^25
  const F as_integer = V::to_float(V::as_int(V::to_float(doubled)));
  // 152 ln 2 - bits * ln 2 / 2^23, and a margin for the rounding here and in score + noise.
  return V::sub(V::set1(105.35837f + 1e-3f), V::mul(as_integer, V::set1(8.26295829e-8f)));
}

template <simd::WordVector V>
bool find_lane_max(const float* logits, int64_t count, float* lane_max) {
  using F = typename V::F;
  const F infinity = V::set1(__builtin_inff());
  uint32_t bad = 0;
  int64_t begin = 0;
  for (; begin + kScanBlock <= count; begin += kScanBlock) {
    F best0 = V::set1(-__builtin_inff());
    F best1 = best0;
    for (int64_t offset = 0; offset < kScanBlock; offset += 2 * kScanLanes) {
      const F a = V::load(logits + begin + offset);
      const F b = V::load(logits + begin + offset + kScanLanes);
      bad |= V::mask_bits(V::not_less(a, infinity)) | V::mask_bits(V::not_less(b, infinity));
      best0 = V::max(best0, a);
      best1 = V::max(best1, b);
    }
    V::store(lane_max + begin / kScanLanes, V::max(best0, best1));
  }
  if (begin < count) {
    float* lanes = lane_max + begin / kScanLanes;
    for (int64_t lane = 0; lane < kScanLanes; ++lane) lanes[lane] = -__builtin_inff();
    for (int64_t token = begin; token < count; ++token) {
      const float logit = logits[token];
      if (!(logit < __builtin_inff())) bad = 1;
      float& best = lanes[token % kScanLanes];
      best = logit > best ? logit : best;
    }
  }
  return bad == 0;
}

// Handles one group of 64 tokens; `logits` has 64 readable floats.
template <simd::WordVector V>
inline int32_t survivors_of_64(const float* logits, int32_t first_token, ScoreScale scale,
                               NoiseKey key, float bound, Survivor* out) {
  using F = typename V::F;
  using I = typename V::I;
  const F max_logit = V::set1(scale.max_logit);
  const F inv_temperature = V::set1(scale.inv_temperature);
  F scores[4];
  for (int part = 0; part < 4; ++part) {
    scores[part] = V::mul(V::sub(V::load(logits + 16 * part), max_logit), inv_temperature);
  }
  const F reach = V::set1(bound - 17.34f);  // kMaxGumbel and a margin
  const F best = V::max(V::max(scores[0], scores[1]), V::max(scores[2], scores[3]));
  if (at_least_mask<V>(best, reach) == 0) return 0;
  I words[4];
  philox64<V>(key, (key.first_token + static_cast<uint32_t>(first_token)) / 4, words);
  int32_t found = 0;
  for (int part = 0; part < 4; ++part) {
    const F keys = V::add(scores[part], gumbel_bound<V>(words[part]));
    uint32_t mask = at_least_mask<V>(keys, V::set1(bound));
    if (mask == 0) continue;
    alignas(64) float key_of[16];
    alignas(64) uint32_t bits_of[16];
    V::store(key_of, keys);
    V::store_int(bits_of, words[part]);
    for (; mask != 0; mask &= mask - 1) {
      const int lane = __builtin_ctz(mask);
      out[found++] = {first_token + 16 * part + lane, bits_of[lane], key_of[lane]};
    }
  }
  return found;
}

template <simd::WordVector V>
int32_t noise_survivors(const float* logits, int64_t count, const float* lane_max, ScoreScale scale,
                        NoiseKey key, float bound, int64_t first_block, int64_t last_block,
                        Survivor* out) {
  using F = typename V::F;
  int32_t found = 0;
  for (int64_t block = first_block; block < last_block; ++block) {
    const F block_scores =
        V::mul(V::sub(V::load(lane_max + block * kScanLanes), V::set1(scale.max_logit)),
               V::set1(scale.inv_temperature));
    if (at_least_mask<V>(block_scores, V::set1(bound - 17.34f)) == 0) continue;
    const int64_t begin = block * kScanBlock;
    const int64_t end = begin + kScanBlock < count ? begin + kScanBlock : count;
    int64_t token = begin;
    for (; token + 64 <= end; token += 64) {
      found += survivors_of_64<V>(logits + token, static_cast<int32_t>(token), scale, key, bound,
                                  out + found);
    }
    if (token < end) {
      float tail[64];
      for (int64_t offset = 0; offset < 64; ++offset) {
        tail[offset] = token + offset < end ? logits[token + offset] : -__builtin_inff();
      }
      found +=
          survivors_of_64<V>(tail, static_cast<int32_t>(token), scale, key, bound, out + found);
      // The padding reaches a bound of -inf.
      while (found > 0 && out[found - 1].token >= count) --found;
    }
  }
  return found;
}

template <simd::WordVector V>
int32_t collect(const float* logits, int64_t count, const float* lane_max, float threshold,
                int32_t* out) {
  using F = typename V::F;
  const F limit = V::set1(threshold);
  int32_t found = 0;
  for (int64_t begin = 0; begin < count; begin += kScanBlock) {
    if (at_least_mask<V>(V::load(lane_max + begin / kScanLanes), limit) == 0) continue;
    const int64_t end = begin + kScanBlock < count ? begin + kScanBlock : count;
    int64_t token = begin;
    for (; token + kScanLanes <= end; token += kScanLanes) {
      for (uint32_t mask = at_least_mask<V>(V::load(logits + token), limit); mask != 0;
           mask &= mask - 1) {
        out[found++] = static_cast<int32_t>(token) + __builtin_ctz(mask);
      }
    }
    for (; token < end; ++token) {
      if (logits[token] >= threshold) out[found++] = static_cast<int32_t>(token);
    }
  }
  return found;
}

// Returns exp of x <= 0; scan_scalar.cc has the same operations one by one.
template <simd::WordVector V>
inline typename V::F exp_nonpositive(typename V::F x) {
  using F = typename V::F;
  const F magic = V::set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F shifted = V::add(V::mul(x, V::set1(1.44269504f)), magic);
  const F n = V::sub(shifted, magic);
  F r = V::sub(x, V::mul(n, V::set1(0.693359375f)));
  r = V::sub(r, V::mul(n, V::set1(-2.12194440e-4f)));
  F y = V::set1(1.98412698e-4f);
  y = V::add(V::mul(y, r), V::set1(1.38888889e-3f));
  y = V::add(V::mul(y, r), V::set1(8.33333333e-3f));
  y = V::add(V::mul(y, r), V::set1(4.16666667e-2f));
  y = V::add(V::mul(y, r), V::set1(1.66666667e-1f));
  y = V::add(V::mul(y, r), V::set1(0.5f));
  y = V::add(V::mul(y, r), V::set1(1.0f));
  y = V::add(V::mul(y, r), V::set1(1.0f));
  // n is in the low bits of `shifted`.
  const typename V::I exponent = V::template shift_left<23>(V::as_int(shifted));
  return V::zero_unless(V::at_least(x, V::set1(-87.0f)),
                        V::as_float(V::add_int(V::as_int(y), exponent)));
}

template <simd::WordVector V>
uint64_t exp_weights(const float* logits, int64_t count, ScoreScale scale, float* weights) {
  using F = typename V::F;
  const F max_logit = V::set1(scale.max_logit);
  const F inv_temperature = V::set1(scale.inv_temperature);
  auto sum = V::zero_int64();
  for (int64_t token = 0; token < count; token += kScanLanes) {
    float tail[kScanLanes];
    const float* source = logits + token;
    if (token + kScanLanes > count) {
      for (int64_t lane = 0; lane < kScanLanes; ++lane) {
        tail[lane] = token + lane < count ? logits[token + lane] : -__builtin_inff();
      }
      source = tail;
    }
    const F e = exp_nonpositive<V>(V::mul(V::sub(V::load(source), max_logit), inv_temperature));
    sum = V::add_scaled(sum, e, kFixedWeightScale);
    if (weights == nullptr) continue;
    if (source == tail) {
      V::store(tail, e);
      for (int64_t lane = 0; token + lane < count; ++lane) weights[token + lane] = tail[lane];
    } else {
      V::store(weights + token, e);
    }
  }
  return V::sum_lanes_int64(sum);
}

// Returns the table of kernels. V has kScanLanes lanes.
template <simd::WordVector V>
constexpr ScanKernels make_kernels() {
  static_assert(V::kLanes == kScanLanes);
  return {find_lane_max<V>, noise_survivors<V>, collect<V>, exp_weights<V>};
}

}  // namespace
}  // namespace forerun
