// Vectors of twice as many lanes: two vectors side by side. Kernels whose bits depend on the number
// of lanes use them on CPUs with narrower registers.
#pragma once

#include <cstdint>

#include "kernels/simd/vector.h"

namespace forerun {
namespace simd {
namespace {

template <class V>
struct Twice {
  static constexpr int kLanes = 2 * V::kLanes;
  struct F {
    typename V::F low, high;
  };
  struct I {
    typename V::I low, high;
  };
  struct Mask {
    typename V::Mask low, high;
  };

  FORERUN_INLINE F zero() { return {V::zero(), V::zero()}; }
  FORERUN_INLINE F set1(float v) { return {V::set1(v), V::set1(v)}; }
  FORERUN_INLINE F load(const float* p) { return {V::load(p), V::load(p + V::kLanes)}; }
  FORERUN_INLINE F repeat4(const float* p) { return {V::repeat4(p), V::repeat4(p)}; }
  FORERUN_INLINE void store(float* p, F v) {
    V::store(p, v.low);
    V::store(p + V::kLanes, v.high);
  }
  FORERUN_INLINE I set1_int(int32_t v) { return {V::set1_int(v), V::set1_int(v)}; }
  FORERUN_INLINE I load_int(const void* p) {
    return {V::load_int(p), V::load_int(static_cast<const char*>(p) + 4 * V::kLanes)};
  }
  FORERUN_INLINE void store_int(void* p, I v) {
    V::store_int(p, v.low);
    V::store_int(static_cast<char*>(p) + 4 * V::kLanes, v.high);
  }

  FORERUN_INLINE F add(F a, F b) { return {V::add(a.low, b.low), V::add(a.high, b.high)}; }
  FORERUN_INLINE F sub(F a, F b) { return {V::sub(a.low, b.low), V::sub(a.high, b.high)}; }
  FORERUN_INLINE F mul(F a, F b) { return {V::mul(a.low, b.low), V::mul(a.high, b.high)}; }
  FORERUN_INLINE F fma(F a, F b, F c) {
    return {V::fma(a.low, b.low, c.low), V::fma(a.high, b.high, c.high)};
  }
  FORERUN_INLINE F fnma(F a, F b, F c) {
    return {V::fnma(a.low, b.low, c.low), V::fnma(a.high, b.high, c.high)};
  }
  FORERUN_INLINE F max(F a, F b) { return {V::max(a.low, b.low), V::max(a.high, b.high)}; }

  FORERUN_INLINE I add_int(I a, I b) {
    return {V::add_int(a.low, b.low), V::add_int(a.high, b.high)};
  }
  FORERUN_INLINE I sub_int(I a, I b) {
    return {V::sub_int(a.low, b.low), V::sub_int(a.high, b.high)};
  }
  FORERUN_INLINE I and_int(I a, I b) {
    return {V::and_int(a.low, b.low), V::and_int(a.high, b.high)};
  }
  template <unsigned kBits>
  FORERUN_INLINE I shift_left(I a) {
    return {V::template shift_left<kBits>(a.low), V::template shift_left<kBits>(a.high)};
  }
  template <unsigned kBits>
  FORERUN_INLINE I shift_right(I a) {
    return {V::template shift_right<kBits>(a.low), V::template shift_right<kBits>(a.high)};
  }
  FORERUN_INLINE F to_float(I a) { return {V::to_float(a.low), V::to_float(a.high)}; }
  FORERUN_INLINE F as_float(I a) { return {V::as_float(a.low), V::as_float(a.high)}; }
  FORERUN_INLINE I as_int(F a) { return {V::as_int(a.low), V::as_int(a.high)}; }

  FORERUN_INLINE Mask less(F a, F b) { return {V::less(a.low, b.low), V::less(a.high, b.high)}; }
  FORERUN_INLINE Mask at_least(F a, F b) {
    return {V::at_least(a.low, b.low), V::at_least(a.high, b.high)};
  }
  FORERUN_INLINE Mask not_less(F a, F b) {
    return {V::not_less(a.low, b.low), V::not_less(a.high, b.high)};
  }
  FORERUN_INLINE F select(Mask mask, F if_set, F otherwise) {
    return {V::select(mask.low, if_set.low, otherwise.low),
            V::select(mask.high, if_set.high, otherwise.high)};
  }
  FORERUN_INLINE I select_int(Mask mask, I if_set, I otherwise) {
    return {V::select_int(mask.low, if_set.low, otherwise.low),
            V::select_int(mask.high, if_set.high, otherwise.high)};
  }
  FORERUN_INLINE F zero_unless(Mask mask, F a) {
    return {V::zero_unless(mask.low, a.low), V::zero_unless(mask.high, a.high)};
  }

  FORERUN_INLINE float first_lane(F v) { return V::first_lane(v.low); }
  FORERUN_INLINE float max_lane(F v) {
    float lanes[kLanes];
    store(lanes, v);
    float highest = lanes[0];
    for (int lane = 1; lane < kLanes; ++lane) {
      highest = lanes[lane] > highest ? lanes[lane] : highest;
    }
    return highest;
  }
  FORERUN_INLINE float sum_lanes(F v) { return V::sum_lanes(V::add(v.low, v.high)); }
  FORERUN_INLINE F sum_fours(const F* v) {
    const typename V::F first[4] = {v[0].low, v[0].high, v[1].low, v[1].high};
    const typename V::F second[4] = {v[2].low, v[2].high, v[3].low, v[3].high};
    return {V::sum_fours(first), V::sum_fours(second)};
  }

  // The operations below make it a WordVector if V is one.
  FORERUN_INLINE uint32_t mask_bits(Mask mask) {
    return V::mask_bits(mask.low) | V::mask_bits(mask.high) << V::kLanes;
  }
  FORERUN_INLINE I xor3(I a, I b, I c) {
    return {V::xor3(a.low, b.low, c.low), V::xor3(a.high, b.high, c.high)};
  }
  FORERUN_INLINE I high_words(I a) { return {V::high_words(a.low), V::high_words(a.high)}; }
  FORERUN_INLINE I mul_low_words(I a, I b) {
    return {V::mul_low_words(a.low, b.low), V::mul_low_words(a.high, b.high)};
  }
  FORERUN_INLINE I interleave_low_words(I even, I odd) {
    return {V::interleave_low_words(even.low, odd.low),
            V::interleave_low_words(even.high, odd.high)};
  }
  FORERUN_INLINE void transpose_words(I a, I b, I c, I d, I* out) {
    typename V::I low[4], high[4];
    V::transpose_words(a.low, b.low, c.low, d.low, low);
    V::transpose_words(a.high, b.high, c.high, d.high, high);
    for (int part = 0; part < 4; ++part) out[part] = {low[part], high[part]};
  }
  FORERUN_INLINE auto zero_int64() { return V::zero_int64(); }
  template <class Sums>
  FORERUN_INLINE Sums add_scaled(Sums sums, F v, double factor) {
    return V::add_scaled(V::add_scaled(sums, v.low, factor), v.high, factor);
  }
  template <class Sums>
  FORERUN_INLINE uint64_t sum_lanes_int64(Sums sums) {
    return V::sum_lanes_int64(sums);
  }
};

}  // namespace
}  // namespace simd
}  // namespace forerun
