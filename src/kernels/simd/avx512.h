// Vectors of 16 lanes: AVX-512 F/BW/DQ/VL, and VNNI for products of integers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/vector.h"

namespace forerun {
namespace simd {
namespace {

struct Avx512 {
  using F = __m512;
  using I = __m512i;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  static constexpr int digit_dot_inputs(int /*bits*/) { return 128; }

  FORERUN_INLINE F zero() { return _mm512_setzero_ps(); }
  FORERUN_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  FORERUN_INLINE F repeat4(const float* p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
  FORERUN_INLINE void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  FORERUN_INLINE F set1(float v) { return _mm512_set1_ps(v); }
  FORERUN_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  FORERUN_INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  FORERUN_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  FORERUN_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  FORERUN_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  FORERUN_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  FORERUN_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  FORERUN_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  FORERUN_INLINE F round(F a) { return _mm512_roundscale_ps(a, 0); }

  FORERUN_INLINE I zero_int() { return _mm512_setzero_si512(); }
  FORERUN_INLINE I load_int(const void* p) { return _mm512_loadu_si512(p); }
  FORERUN_INLINE void store_int(void* p, I v) { _mm512_storeu_si512(p, v); }
  FORERUN_INLINE I set1_int(int32_t v) { return _mm512_set1_epi32(v); }
  FORERUN_INLINE I add_int(I a, I b) { return _mm512_add_epi32(a, b); }
  FORERUN_INLINE I sub_int(I a, I b) { return _mm512_sub_epi32(a, b); }
  FORERUN_INLINE I mul_int(I a, I b) { return _mm512_mullo_epi32(a, b); }
  FORERUN_INLINE I max_int(I a, I b) { return _mm512_max_epi32(a, b); }
  FORERUN_INLINE I or_int(I a, I b) { return _mm512_or_si512(a, b); }
  // These two use assembly, because the compiler copies accumulators with the intrinsics.
  FORERUN_INLINE I dot_halves(I sum, I a, I b) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  // Returns sum + the products of the lanes' four bytes, unsigned in a and signed in b.
  FORERUN_INLINE I dot_bytes(I sum, I a, I b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  FORERUN_INLINE I sub_bytes(I a, I b) { return _mm512_sub_epi8(a, b); }
  FORERUN_INLINE I sub_halves(I a, I b) { return _mm512_sub_epi16(a, b); }
  FORERUN_INLINE I mul_halves(I a, I b) { return _mm512_mullo_epi16(a, b); }
  FORERUN_INLINE I and_int(I a, I b) { return _mm512_and_si512(a, b); }
  template <unsigned kBits>
  FORERUN_INLINE I shift_left(I a) {
    return _mm512_slli_epi32(a, kBits);
  }
  template <unsigned kBits>
  FORERUN_INLINE I shift_right(I a) {
    return _mm512_srli_epi32(a, kBits);
  }
  FORERUN_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  FORERUN_INLINE I to_int(F a) { return _mm512_cvtps_epi32(a); }
  FORERUN_INLINE F as_float(I a) { return _mm512_castsi512_ps(a); }
  FORERUN_INLINE I as_int(F a) { return _mm512_castps_si512(a); }

  FORERUN_INLINE Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OS); }
  FORERUN_INLINE Mask at_least(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  FORERUN_INLINE Mask not_less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
  FORERUN_INLINE Mask is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  FORERUN_INLINE F select(Mask mask, F if_set, F otherwise) {
    return _mm512_mask_blend_ps(mask, otherwise, if_set);
  }
  FORERUN_INLINE I select_int(Mask mask, I if_set, I otherwise) {
    return _mm512_mask_blend_epi32(mask, otherwise, if_set);
  }
  FORERUN_INLINE F zero_unless(Mask mask, F a) { return _mm512_maskz_mov_ps(mask, a); }
  FORERUN_INLINE uint32_t mask_bits(Mask mask) { return mask; }

  struct Pair {
    F even;
    F odd;
  };
  FORERUN_INLINE Pair load_split_f32(const void* p) {
    const F low = _mm512_loadu_ps(p);
    const F high = _mm512_loadu_ps(static_cast<const float*>(p) + 16);
    return split(low, high);
  }
  FORERUN_INLINE Pair load_split_f16(const void* p) {
    const __m256i* halves = static_cast<const __m256i*>(p);
    return split(_mm512_cvtph_ps(_mm256_loadu_si256(halves)),
                 _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1)));
  }
  // Bits 0 to 6 of a code are bits 7 to 13 of an f16, whose exponent has a bias that is larger
  // by 8.
  FORERUN_INLINE Pair load_split_e4m3(const void* p) {
    const __m256i codes = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1);
    const __m256i odd = _mm256_srai_epi16(codes, 1);
    const __m256i keep = _mm256_set1_epi16(static_cast<int16_t>(0xbf80));
    return {_mm512_cvtph_ps(_mm256_and_si256(even, keep)),
            _mm512_cvtph_ps(_mm256_and_si256(odd, keep))};
  }
  FORERUN_INLINE Pair split(F low, F high) {
    const I even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const I odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)};
  }
  FORERUN_INLINE F load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  FORERUN_INLINE F load_bf16(const void* p) {
    const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return as_float(shift_left<16>(_mm512_cvtepu16_epi32(halves)));
  }
  FORERUN_INLINE I load_bytes(const void* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  FORERUN_INLINE I repeat4_int(const void* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  FORERUN_INLINE I lookup_bytes(I table, I indices) { return _mm512_shuffle_epi8(table, indices); }
  // Looks up entries of 16 bits by the low 5 bits of each index.
  FORERUN_INLINE I lookup_halves(I table, I indices) {
    return _mm512_permutexvar_epi16(indices, table);
  }
  FORERUN_INLINE void store_low_halves(uint16_t* p, I v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
  }
  FORERUN_INLINE void store_low_bytes(int8_t* p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
  FORERUN_INLINE void store_low_bytes_by_fours(int8_t* p, I first, I second) {
    const __m128i a = _mm512_cvtepi32_epi8(first);
    const __m128i b = _mm512_cvtepi32_epi8(second);
    __m128i* to = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(to, _mm_unpacklo_epi32(a, b));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi32(a, b));
  }
  FORERUN_INLINE int32_t max_lane_int(I v) { return _mm512_reduce_max_epi32(v); }

  FORERUN_INLINE float first_lane(F v) { return _mm512_cvtss_f32(v); }
  FORERUN_INLINE float max_lane(F v) { return _mm512_reduce_max_ps(v); }
  FORERUN_INLINE float sum_lanes(F v) { return _mm512_reduce_add_ps(v); }
  FORERUN_INLINE F sum_fours(const F* v) {
    F b[2];
    for (int i = 0; i < 2; ++i) {
      b[i] = add(_mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0x88),
                 _mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0xdd));
    }
    // Quarter j of the sum has v[0], v[1], v[2], v[3].
    const F sums = add(_mm512_shuffle_ps(b[0], b[1], 0x88), _mm512_shuffle_ps(b[0], b[1], 0xdd));
    const I order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(order, sums);
  }
  FORERUN_INLINE void sum_lanes4(F a, F b, F c, F d, float* out) {
    const F ab = add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const F cd = add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const F abcd = add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }

  struct [[gnu::may_alias]] FourBytes {
    int8_t bytes[4];
  };

  template <int kDigits, int kBits>
  struct DigitDot {
    I sum[kDigits];
    FORERUN_INLINE_MEMBER void clear() {
      for (int digit = 0; digit < kDigits; ++digit) sum[digit] = zero_int();
    }
    FORERUN_INLINE_MEMBER void step(I weights, const int8_t* digits) {
      for (int digit = 0; digit < kDigits; ++digit) {
        // With the intrinsic, the compiler emits a separate broadcast and copies accumulators.
        asm("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum[digit])
            : "v"(weights), "m"(*reinterpret_cast<const FourBytes*>(digits + 4 * digit)));
      }
    }
    FORERUN_INLINE_MEMBER I flush(I total) const {
      if constexpr (kDigits == 2) {
        return add_int(total, add_int(shift_left<8>(sum[0]), sum[1]));
      } else {
        return add_int(total, sum[0]);
      }
    }
  };

  FORERUN_INLINE I xor3(I a, I b, I c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
  FORERUN_INLINE I high_words(I a) { return _mm512_srli_epi64(a, 32); }
  FORERUN_INLINE I mul_low_words(I a, I b) { return _mm512_mul_epu32(a, b); }
  FORERUN_INLINE I interleave_low_words(I even, I odd) {
    return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  }
  FORERUN_INLINE void transpose_words(I a, I b, I c, I d, I* out) {
    const I ab_low = _mm512_unpacklo_epi32(a, b);
    const I ab_high = _mm512_unpackhi_epi32(a, b);
    const I cd_low = _mm512_unpacklo_epi32(c, d);
    const I cd_high = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
  }

  FORERUN_INLINE I zero_int64() { return _mm512_setzero_si512(); }
  FORERUN_INLINE I add_scaled(I sums, F v, double factor) {
    sums = add_scaled_half(sums, _mm512_castps512_ps256(v), factor);
    return add_scaled_half(sums, _mm512_extractf32x8_ps(v, 1), factor);
  }
  FORERUN_INLINE I add_scaled_half(I sums, __m256 v, double factor) {
    const __m512d scaled = _mm512_mul_pd(_mm512_cvtps_pd(v), _mm512_set1_pd(factor));
    return _mm512_add_epi64(sums, _mm512_cvtpd_epi64(scaled));  // to nearest, ties to even
  }
  FORERUN_INLINE uint64_t sum_lanes_int64(I sums) {
    alignas(64) uint64_t parts[8];
    _mm512_store_si512(parts, sums);
    uint64_t total = 0;
    for (uint64_t part : parts) total += part;
    return total;
  }

  // Only attention with products of bf16 uses the operations below.

  // Returns a mask of the first `count` of 16 lanes: all of them if `count` is larger, none if it
  // is negative.
  FORERUN_INLINE Mask first_lanes(int64_t count) {
    return static_cast<Mask>(count >= 16 ? 0xffffu : count > 0 ? (1u << count) - 1 : 0u);
  }
  FORERUN_INLINE Mask mask_of_bits(uint64_t bits) { return static_cast<Mask>(bits); }
  // Does not access the memory of other lanes.
  FORERUN_INLINE F load_or(Mask mask, const float* p, F otherwise) {
    return _mm512_mask_loadu_ps(otherwise, mask, p);
  }
  FORERUN_INLINE F load_or_zero(Mask mask, const float* p) {
    return _mm512_maskz_loadu_ps(mask, p);
  }
  FORERUN_INLINE void store_where(Mask mask, float* p, F v) { _mm512_mask_storeu_ps(p, mask, v); }
  // Interleave the 16-bit halves of both: of the lower, or upper, two of every four lanes.
  FORERUN_INLINE I interleave_lower_halves(I a, I b) { return _mm512_unpacklo_epi16(a, b); }
  FORERUN_INLINE I interleave_upper_halves(I a, I b) { return _mm512_unpackhi_epi16(a, b); }
  // Lane i of the result is lane order[i] of `low`, or, from 16 on, lane order[i] - 16 of `high`.
  FORERUN_INLINE F permute2(F low, I order, F high) {
    return _mm512_permutex2var_ps(low, order, high);
  }
  // Returns a minus the largest integer that is not above it.
  FORERUN_INLINE F fraction(F a) {
    constexpr int kDownExact = 0x09;
    return _mm512_reduce_ps(a, kDownExact);
  }
  // Returns a * 2^n, where n is the largest integer that is not above b.
  FORERUN_INLINE F scale_by_pow2(F a, F b) { return _mm512_scalef_ps(a, b); }
};
static_assert(WeightVector<Avx512> && WordVector<Avx512>);

}  // namespace
}  // namespace simd
}  // namespace forerun
