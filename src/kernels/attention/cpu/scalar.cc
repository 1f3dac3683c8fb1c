// Portable tile kernels: eight lanes in plain C++, products and sums rounded apart, since a fused
// multiply-add without the instruction is a slow library call.
#include "kernels/attention/cpu/tile_impl.h"

namespace forerun {
namespace {

struct Portable {
  static constexpr int kLanes = 8;
  static constexpr int kMaxQueries = 2;
  struct V {
    float lane[kLanes];
  };

  template <class F>
  static V each(F f) {
    V out;
    for (int i = 0; i < kLanes; ++i) out.lane[i] = f(i);
    return out;
  }
  static V set(float x) {
    return each([x](int) { return x; });
  }
  static V load(const float* from) {
    return each([from](int i) { return from[i]; });
  }
  // The same four floats in both halves.
  static V repeat4(const float* from) {
    return each([from](int i) { return from[i % 4]; });
  }
  static void unpack(const float* from, V* to) { *to = load(from); }
  static void unpack(const uint16_t* from, V* to) {
    for (int odd = 0; odd < 2; ++odd) {
      to[odd] = each([from, odd](int i) {
        return bits_to_float(static_cast<uint32_t>(from[2 * i + odd]) << 16);
      });
    }
  }
  static void store(float* to, const V& x) {
    for (int i = 0; i < kLanes; ++i) to[i] = x.lane[i];
  }
  static V add(const V& a, const V& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static V sub(const V& a, const V& b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static V mul(const V& a, const V& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static V fma(const V& a, const V& b, const V& c) {
    return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  static V max(const V& a, const V& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  // 2^n from n + 1.5 * 2^23.
  static V pow2_of_shifted(const V& shifted) {
    return each([&](int i) {
      return bits_to_float((__builtin_bit_cast(uint32_t, shifted.lane[i]) << 23) + 0x3f800000u);
    });
  }
  static V zero_where_below(const V& x, const V& t, const V& limit) {
    return each([&](int i) { return t.lane[i] < limit.lane[i] ? 0.0f : x.lane[i]; });
  }
  static float sum_lanes(const V& x) {
    const float* a = x.lane;
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
  }
  static float max_lane(const V& x) {
    float highest = x.lane[0];
    for (int i = 1; i < kLanes; ++i) highest = x.lane[i] > highest ? x.lane[i] : highest;
    return highest;
  }
  static float first_lane(const V& x) { return x.lane[0]; }
  // Lane 2i + j is the sum of half j of v[i].
  static V sum_fours(const V* v) {
    return each([v](int i) {
      const float* a = v[i / 2].lane + i % 2 * 4;
      return (a[0] + a[1]) + (a[2] + a[3]);
    });
  }

 private:
  static float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
};

}  // namespace

const AttentionKernels& attention_kernels_scalar() {
  static constexpr AttentionKernels kKernels = make_kernels<Portable>();
  return kKernels;
}

}  // namespace forerun
