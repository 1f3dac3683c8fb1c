// Vectors of 8 lanes: AVX2 with FMA and F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/vector.h"

namespace forerun {
namespace simd {
namespace {

struct Avx2 {
  using F = __m256;
  using I = __m256i;
  using Mask = __m256;  // all bits of a lane, or none
  static constexpr int kLanes = 8;
  // Returns how many inputs may be summed; with more, 16-bit sums would overflow.
  static constexpr int digit_dot_inputs(int bits) {
    return bits <= 4 || bits == 8 ? 32 : bits == 5 ? 16 : bits == 6 ? 8 : 4;
  }

  FORERUN_INLINE F zero() { return _mm256_setzero_ps(); }
  FORERUN_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
  FORERUN_INLINE F repeat4(const float* p) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
  }
  FORERUN_INLINE void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  FORERUN_INLINE F set1(float v) { return _mm256_set1_ps(v); }
  FORERUN_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  FORERUN_INLINE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  FORERUN_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
  FORERUN_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  FORERUN_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  FORERUN_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
  FORERUN_INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }
  FORERUN_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
  FORERUN_INLINE F round(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  FORERUN_INLINE I zero_int() { return _mm256_setzero_si256(); }
  FORERUN_INLINE I load_int(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  FORERUN_INLINE void store_int(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  FORERUN_INLINE I set1_int(int32_t v) { return _mm256_set1_epi32(v); }
  FORERUN_INLINE I add_int(I a, I b) { return _mm256_add_epi32(a, b); }
  FORERUN_INLINE I sub_int(I a, I b) { return _mm256_sub_epi32(a, b); }
  FORERUN_INLINE I mul_int(I a, I b) { return _mm256_mullo_epi32(a, b); }
  FORERUN_INLINE I max_int(I a, I b) { return _mm256_max_epi32(a, b); }
  FORERUN_INLINE I or_int(I a, I b) { return _mm256_or_si256(a, b); }
  FORERUN_INLINE I dot_halves(I sum, I a, I b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
  FORERUN_INLINE I sub_halves(I a, I b) { return _mm256_sub_epi16(a, b); }
  FORERUN_INLINE I mul_halves(I a, I b) { return _mm256_mullo_epi16(a, b); }
  FORERUN_INLINE I and_int(I a, I b) { return _mm256_and_si256(a, b); }
  template <unsigned kBits>
  FORERUN_INLINE I shift_left(I a) {
    return _mm256_slli_epi32(a, kBits);
  }
  template <unsigned kBits>
  FORERUN_INLINE I shift_right(I a) {
    return _mm256_srli_epi32(a, kBits);
  }
  FORERUN_INLINE F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  FORERUN_INLINE I to_int(F a) { return _mm256_cvtps_epi32(a); }
  FORERUN_INLINE F as_float(I a) { return _mm256_castsi256_ps(a); }
  FORERUN_INLINE I as_int(F a) { return _mm256_castps_si256(a); }

  FORERUN_INLINE Mask less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OS); }
  FORERUN_INLINE Mask at_least(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
  FORERUN_INLINE Mask not_less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_NLT_UQ); }
  FORERUN_INLINE Mask is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  FORERUN_INLINE F select(Mask mask, F if_set, F otherwise) {
    return _mm256_blendv_ps(otherwise, if_set, mask);
  }
  FORERUN_INLINE I select_int(Mask mask, I if_set, I otherwise) {
    return _mm256_blendv_epi8(otherwise, if_set, as_int(mask));
  }
  FORERUN_INLINE F zero_unless(Mask mask, F a) { return _mm256_and_ps(mask, a); }
  FORERUN_INLINE uint32_t mask_bits(Mask mask) {
    return static_cast<uint32_t>(_mm256_movemask_ps(mask));
  }

  struct Pair {
    F even;
    F odd;
  };
  FORERUN_INLINE Pair load_split_f32(const void* p) {
    const float* floats = static_cast<const float*>(p);
    return split(_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + 8));
  }
  FORERUN_INLINE Pair load_split_f16(const void* p) {
    const __m128i* halves = static_cast<const __m128i*>(p);
    return split(_mm256_cvtph_ps(_mm_loadu_si128(halves)),
                 _mm256_cvtph_ps(_mm_loadu_si128(halves + 1)));
  }
  // Bits 0 to 6 of a code are bits 7 to 13 of an f16, whose exponent has a bias that is larger
  // by 8.
  FORERUN_INLINE Pair load_split_e4m3(const void* p) {
    const __m128i codes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    const __m128i even = _mm_srai_epi16(_mm_slli_epi16(codes, 8), 1);
    const __m128i odd = _mm_srai_epi16(codes, 1);
    const __m128i keep = _mm_set1_epi16(static_cast<int16_t>(0xbf80));
    return {_mm256_cvtph_ps(_mm_and_si128(even, keep)), _mm256_cvtph_ps(_mm_and_si128(odd, keep))};
  }
  FORERUN_INLINE Pair split(F low, F high) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8)),
            _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8))};
  }
  FORERUN_INLINE F load_f16(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  FORERUN_INLINE F load_bf16(const void* p) {
    const __m128i halves = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return as_float(shift_left<16>(_mm256_cvtepu16_epi32(halves)));
  }
  FORERUN_INLINE I load_bytes(const void* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  }
  FORERUN_INLINE I repeat4_int(const void* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  FORERUN_INLINE I lookup_bytes(I table, I indices) { return _mm256_shuffle_epi8(table, indices); }
  FORERUN_INLINE void store_low_halves(uint16_t* p, I v) {
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }
  FORERUN_INLINE void store_low_bytes(int8_t* p, I v) {
    const I picked = _mm256_shuffle_epi8(
        v, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8,
                            12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const int32_t low = _mm256_extract_epi32(picked, 0);
    const int32_t high = _mm256_extract_epi32(picked, 4);
    __builtin_memcpy(p, &low, 4);
    __builtin_memcpy(p + 4, &high, 4);
  }
  FORERUN_INLINE void store_low_bytes_by_fours(int8_t* p, I first, I second) {
    int8_t bytes[2][8];
    store_low_bytes(bytes[0], first);
    store_low_bytes(bytes[1], second);
    for (int four = 0; four < 2; ++four) {
      __builtin_memcpy(p + 8 * four, bytes[0] + 4 * four, 4);
      __builtin_memcpy(p + 8 * four + 4, bytes[1] + 4 * four, 4);
    }
  }
  FORERUN_INLINE int32_t max_lane_int(I v) {
    alignas(32) int32_t lanes[8];
    store_int(lanes, v);
    int32_t largest = lanes[0];
    for (int lane = 1; lane < 8; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
    return largest;
  }

  FORERUN_INLINE float first_lane(F v) { return _mm256_cvtss_f32(v); }
  FORERUN_INLINE float max_lane(F v) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  FORERUN_INLINE float sum_lanes(F v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  FORERUN_INLINE F sum_fours(const F* v) {
    const F low = _mm256_hadd_ps(v[0], v[1]);
    const F high = _mm256_hadd_ps(v[2], v[3]);
    const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_ps(_mm256_hadd_ps(low, high), order);
  }
  FORERUN_INLINE void sum_lanes4(F a, F b, F c, F d, float* out) {
    const F ab = add(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const F cd = add(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const F abcd = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
  }

  // Products of unsigned weights and signed digits are summed in pairs in 16 bits, which would
  // saturate for 8-bit weights, so these are multiplied as two nibbles. The sums of 32 inputs of
  // nibbles by digits stay below 15 * 128 * 16 = 30720, those of 16 inputs of 5 bits and of 8
  // inputs of 6 bits below 32768.
  template <int kDigits, int kBits>
  struct DigitDot {
    static constexpr int kParts = kBits == 8 ? 2 : 1;
    I sum[kDigits][kParts];
    FORERUN_INLINE_MEMBER void clear() {
      for (int digit = 0; digit < kDigits; ++digit) {
        for (int part = 0; part < kParts; ++part) sum[digit][part] = zero_int();
      }
    }
    FORERUN_INLINE_MEMBER void step(I weights, const int8_t* digits) {
      const I nibble = _mm256_set1_epi8(15);
      for (int digit = 0; digit < kDigits; ++digit) {
        int32_t four = 0;
        __builtin_memcpy(&four, digits + 4 * digit, 4);
        const I x = _mm256_set1_epi32(four);
        if constexpr (kBits == 8) {
          const I low = _mm256_and_si256(weights, nibble);
          const I high = _mm256_and_si256(_mm256_srli_epi32(weights, 4), nibble);
          sum[digit][0] = _mm256_add_epi16(sum[digit][0], _mm256_maddubs_epi16(low, x));
          sum[digit][1] = _mm256_add_epi16(sum[digit][1], _mm256_maddubs_epi16(high, x));
        } else {
          sum[digit][0] = _mm256_add_epi16(sum[digit][0], _mm256_maddubs_epi16(weights, x));
        }
      }
    }
    FORERUN_INLINE_MEMBER I flush(I total) const {
      for (int digit = 0; digit < kDigits; ++digit) {
        const int16_t weight = digit + 1 < kDigits ? 256 : 1;
        for (int part = 0; part < kParts; ++part) {
          const int16_t factor = static_cast<int16_t>(part == 0 ? weight : weight * 16);
          total = add_int(total, _mm256_madd_epi16(sum[digit][part], _mm256_set1_epi16(factor)));
        }
      }
      return total;
    }
  };

  FORERUN_INLINE I xor3(I a, I b, I c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
  FORERUN_INLINE I high_words(I a) { return _mm256_srli_epi64(a, 32); }
  FORERUN_INLINE I mul_low_words(I a, I b) { return _mm256_mul_epu32(a, b); }
  FORERUN_INLINE I interleave_low_words(I even, I odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  }
  FORERUN_INLINE void transpose_words(I a, I b, I c, I d, I* out) {
    const I ab_low = _mm256_unpacklo_epi32(a, b);
    const I ab_high = _mm256_unpackhi_epi32(a, b);
    const I cd_low = _mm256_unpacklo_epi32(c, d);
    const I cd_high = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
  }

  FORERUN_INLINE I zero_int64() { return _mm256_setzero_si256(); }
  FORERUN_INLINE I add_scaled(I sums, F v, double factor) {
    sums = add_scaled_half(sums, _mm256_castps256_ps128(v), factor);
    return add_scaled_half(sums, _mm256_extractf128_ps(v, 1), factor);
  }
  FORERUN_INLINE I add_scaled_half(I sums, __m128 v, double factor) {
    // Adding 2^52 leaves the integer, rounded to nearest with ties to even, in the low bits.
    const __m256d magic = _mm256_set1_pd(0x1p52);
    const __m256d scaled = _mm256_mul_pd(_mm256_cvtps_pd(v), _mm256_set1_pd(factor));
    const __m256i bits = _mm256_castpd_si256(_mm256_add_pd(scaled, magic));
    return _mm256_add_epi64(sums, _mm256_sub_epi64(bits, _mm256_castpd_si256(magic)));
  }
  FORERUN_INLINE uint64_t sum_lanes_int64(I sums) {
    alignas(32) uint64_t parts[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sums);
    return parts[0] + parts[1] + parts[2] + parts[3];
  }
};
static_assert(WeightVector<Avx2> && WordVector<Avx2>);

}  // namespace
}  // namespace simd
}  // namespace forerun
