// Vectors of AVX-512 for the tile kernels. Included by files that are compiled for it, each with a
// copy of its own (attention/cpu/tile_impl.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace forerun {
namespace {

struct Avx512 {
  using V = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMaxQueries = 4;

  static V set(float x) { return _mm512_set1_ps(x); }
  static V load(const float* from) { return _mm512_loadu_ps(from); }
  // The same four floats in every quarter.
  static V repeat4(const float* from) { return _mm512_broadcast_f32x4(_mm_loadu_ps(from)); }
  static void unpack(const float* from, V* to) { *to = _mm512_loadu_ps(from); }
  static void unpack(const uint16_t* from, V* to) {
    const __m512i pairs = _mm512_loadu_si512(from);
    to[0] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    to[1] = _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))));
  }
  static void store(float* to, V x) { _mm512_storeu_ps(to, x); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }
  // 2^n from n + 1.5 * 2^23.
  static V pow2_of_shifted(V shifted) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)));
  }
  static V zero_where_below(V x, V t, V limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(t, limit, _CMP_NLT_UQ), x);
  }
  static float sum_lanes(V x) { return _mm512_reduce_add_ps(x); }
  static float max_lane(V x) { return _mm512_reduce_max_ps(x); }
  static float first_lane(V x) { return _mm512_cvtss_f32(x); }

  // Lane 4i + j is the sum of quarter j of v[i].
  static V sum_fours(const V* v) {
    V b[2];
    for (int i = 0; i < 2; ++i) {
      b[i] = _mm512_add_ps(_mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0x88),
                           _mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0xdd));
    }
    // Quarter j of the sum: v[0], v[1], v[2], v[3].
    const V sums =
        _mm512_add_ps(_mm512_shuffle_ps(b[0], b[1], 0x88), _mm512_shuffle_ps(b[0], b[1], 0xdd));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(order, sums);
  }
};

}  // namespace
}  // namespace forerun
