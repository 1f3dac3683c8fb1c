// Vectors of 4 lanes in the compiler's own vector extension: the fallback on every CPU, and the
// only vectors off x86. There is no fused multiply-add, so sums are rounded differently from those
// of the other instruction sets. Assumes little-endian memory.
#pragma once

#include <cstdint>

#include "kernels/simd/vector.h"

namespace forerun {
namespace simd {
namespace {

struct Scalar {
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef uint32_t U __attribute__((vector_size(16)));
  typedef uint16_t Halves __attribute__((vector_size(16)));
  using Mask = I;  // all bits of a lane, or none
  static constexpr int kLanes = 4;
  static constexpr int digit_dot_inputs(int /*bits*/) { return 128; }

  FORERUN_INLINE F zero() { return F{}; }
  FORERUN_INLINE F load(const float* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }
  FORERUN_INLINE void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof(v)); }
  FORERUN_INLINE F repeat4(const float* p) { return load(p); }
  FORERUN_INLINE F set1(float v) { return F{v, v, v, v}; }
  FORERUN_INLINE F fma(F a, F b, F c) { return a * b + c; }
  FORERUN_INLINE F fnma(F a, F b, F c) { return c - a * b; }
  FORERUN_INLINE F add(F a, F b) { return a + b; }
  FORERUN_INLINE F sub(F a, F b) { return a - b; }
  FORERUN_INLINE F mul(F a, F b) { return a * b; }
  FORERUN_INLINE F div(F a, F b) { return a / b; }
  FORERUN_INLINE F min(F a, F b) { return select(a < b, a, b); }
  FORERUN_INLINE F max(F a, F b) { return select(a > b, a, b); }
  // Works for |a| below 2^22: adding 1.5 * 2^23 leaves no bits for the fraction.
  FORERUN_INLINE F round(F a) {
    const F large = set1(12582912.0f);
    return (a + large) - large;
  }

  FORERUN_INLINE I zero_int() { return I{}; }
  FORERUN_INLINE I load_int(const void* p) {
    I v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }
  FORERUN_INLINE void store_int(void* p, I v) { __builtin_memcpy(p, &v, sizeof(v)); }
  FORERUN_INLINE I set1_int(int32_t v) { return I{v, v, v, v}; }
  FORERUN_INLINE I add_int(I a, I b) {
    return reinterpret_cast<I>(reinterpret_cast<U>(a) + reinterpret_cast<U>(b));
  }
  FORERUN_INLINE I sub_int(I a, I b) { return a - b; }
  FORERUN_INLINE I mul_int(I a, I b) { return a * b; }
  FORERUN_INLINE I max_int(I a, I b) { return select_int(a > b, a, b); }
  FORERUN_INLINE I or_int(I a, I b) { return a | b; }
  FORERUN_INLINE I dot_halves(I sum, I a, I b) {
    const I half = set1_int(0xffff);
    const I low = ((a & half) ^ 0x8000) - 0x8000;
    const I other_low = ((b & half) ^ 0x8000) - 0x8000;
    return sum + low * other_low + (a >> 16) * (b >> 16);
  }
  FORERUN_INLINE I sub_halves(I a, I b) {
    return reinterpret_cast<I>(reinterpret_cast<Halves>(a) - reinterpret_cast<Halves>(b));
  }
  FORERUN_INLINE I mul_halves(I a, I b) {
    return reinterpret_cast<I>(reinterpret_cast<Halves>(a) * reinterpret_cast<Halves>(b));
  }
  FORERUN_INLINE I and_int(I a, I b) { return a & b; }
  template <unsigned kBits>
  FORERUN_INLINE I shift_left(I a) {
    return reinterpret_cast<I>(reinterpret_cast<U>(a) << kBits);
  }
  template <unsigned kBits>
  FORERUN_INLINE I shift_right(I a) {
    return reinterpret_cast<I>(reinterpret_cast<U>(a) >> kBits);
  }
  FORERUN_INLINE F to_float(I a) { return __builtin_convertvector(a, F); }
  FORERUN_INLINE I to_int(F a) { return __builtin_convertvector(round(a), I); }
  FORERUN_INLINE F as_float(I a) { return reinterpret_cast<F>(a); }
  FORERUN_INLINE I as_int(F a) { return reinterpret_cast<I>(a); }

  FORERUN_INLINE Mask less(F a, F b) { return a < b; }
  FORERUN_INLINE Mask at_least(F a, F b) { return a >= b; }
  FORERUN_INLINE Mask not_less(F a, F b) { return ~(a < b); }
  FORERUN_INLINE Mask is_nan(F a) {
    // Only NaN differs from itself. NOLINTNEXTLINE(misc-redundant-expression)
    return a != a;
  }
  FORERUN_INLINE F select(Mask mask, F if_set, F otherwise) {
    return as_float(select_int(mask, as_int(if_set), as_int(otherwise)));
  }
  FORERUN_INLINE I select_int(Mask mask, I if_set, I otherwise) {
    return (mask & if_set) | (~mask & otherwise);
  }
  FORERUN_INLINE F zero_unless(Mask mask, F a) { return as_float(mask & as_int(a)); }

  struct Pair {
    F even;
    F odd;
  };
  FORERUN_INLINE Pair load_split_f32(const void* p) {
    float v[8];
    __builtin_memcpy(v, p, sizeof(v));
    return {F{v[0], v[2], v[4], v[6]}, F{v[1], v[3], v[5], v[7]}};
  }
  FORERUN_INLINE Pair load_split_f16(const void* p) {
    const I raw = load_int(p);
    return {widen_half(raw & set1_int(0xffff)), widen_half(shift_right<16>(raw))};
  }
  FORERUN_INLINE Pair load_split_e4m3(const void* p) {
    uint8_t v[8];
    __builtin_memcpy(v, p, sizeof(v));
    return {widen_code(I{v[0], v[2], v[4], v[6]}), widen_code(I{v[1], v[3], v[5], v[7]})};
  }
  // Takes the same steps as widen_half().
  FORERUN_INLINE F widen_code(I code) {
    const F scaled = as_float(shift_left<20>(code & set1_int(0x7f))) * set1(0x1p112f);
    return as_float(as_int(scaled) | shift_left<24>(code & set1_int(0x80)));
  }
  // Converts binary16 to binary32: moves exponent and mantissa up, rebiases by a multiplication
  // (exact, also for subnormals), and restores infinity and NaN.
  FORERUN_INLINE F widen_half(I half) {
    const I magnitude = half & set1_int(0x7fff);
    const F scaled = as_float(shift_left<13>(magnitude)) * set1(0x1p112f);
    const I special = magnitude > set1_int(0x7bff);
    const I bits = as_int(scaled) | (special & set1_int(0x7f800000));
    return as_float(bits | shift_left<16>(half & set1_int(0x8000)));
  }
  FORERUN_INLINE F load_f16(const void* p) {
    uint16_t v[4];
    __builtin_memcpy(v, p, sizeof(v));
    return widen_half(I{v[0], v[1], v[2], v[3]});
  }
  FORERUN_INLINE F load_bf16(const void* p) {
    uint16_t v[4];
    __builtin_memcpy(v, p, sizeof(v));
    return as_float(shift_left<16>(I{v[0], v[1], v[2], v[3]}));
  }
  FORERUN_INLINE I load_bytes(const void* p) {
    int8_t v[4];
    __builtin_memcpy(v, p, sizeof(v));
    return I{v[0], v[1], v[2], v[3]};
  }
  FORERUN_INLINE I repeat4_int(const void* p) { return load_int(p); }
  FORERUN_INLINE I lookup_bytes(I table, I indices) {
    uint8_t from[16];
    uint8_t at[16];
    store_int(from, table);
    store_int(at, indices);
    for (uint8_t& byte : at) byte = from[byte];
    return load_int(at);
  }
  FORERUN_INLINE void store_low_halves(uint16_t* p, I v) {
    for (int lane = 0; lane < 4; ++lane) p[lane] = static_cast<uint16_t>(v[lane]);
  }
  FORERUN_INLINE void store_low_bytes(int8_t* p, I v) {
    for (int lane = 0; lane < 4; ++lane) p[lane] = static_cast<int8_t>(v[lane] & 255);
  }
  FORERUN_INLINE void store_low_bytes_by_fours(int8_t* p, I first, I second) {
    int8_t bytes[2][4];
    store_low_bytes(bytes[0], first);
    store_low_bytes(bytes[1], second);
    for (int four = 0; four < 1; ++four) {
      __builtin_memcpy(p + 8 * four, bytes[0] + 4 * four, 4);
      __builtin_memcpy(p + 8 * four + 4, bytes[1] + 4 * four, 4);
    }
  }
  FORERUN_INLINE int32_t max_lane_int(I v) {
    int32_t largest = v[0];
    for (int lane = 1; lane < 4; ++lane) largest = v[lane] > largest ? v[lane] : largest;
    return largest;
  }

  FORERUN_INLINE float first_lane(F v) { return v[0]; }
  FORERUN_INLINE float max_lane(F v) {
    float highest = v[0];
    for (int lane = 1; lane < 4; ++lane) highest = v[lane] > highest ? v[lane] : highest;
    return highest;
  }
  FORERUN_INLINE float sum_lanes(F v) { return (v[0] + v[2]) + (v[1] + v[3]); }
  FORERUN_INLINE void sum_lanes4(F a, F b, F c, F d, float* out) {
    out[0] = sum_lanes(a);
    out[1] = sum_lanes(b);
    out[2] = sum_lanes(c);
    out[3] = sum_lanes(d);
  }
  FORERUN_INLINE F sum_fours(const F* v) {
    F sums;
    for (int i = 0; i < 4; ++i) sums[i] = (v[i][0] + v[i][1]) + (v[i][2] + v[i][3]);
    return sums;
  }

  template <int kDigits, int kBits>
  struct DigitDot {
    I sum[kDigits];
    FORERUN_INLINE_MEMBER void clear() {
      for (int digit = 0; digit < kDigits; ++digit) sum[digit] = zero_int();
    }
    FORERUN_INLINE_MEMBER void step(I weights, const int8_t* digits) {
      const I byte = set1_int(255);
      for (int digit = 0; digit < kDigits; ++digit) {
        const int8_t* x = digits + 4 * digit;
        sum[digit] += (weights & byte) * x[0] + (shift_right<8>(weights) & byte) * x[1] +
                      (shift_right<16>(weights) & byte) * x[2] + shift_right<24>(weights) * x[3];
      }
    }
    FORERUN_INLINE_MEMBER I flush(I total) const {
      if constexpr (kDigits == 2) return total + shift_left<8>(sum[0]) + sum[1];
      return total + sum[0];
    }
  };
};
static_assert(WeightVector<Scalar>);

}  // namespace
}  // namespace simd
}  // namespace forerun
