// AVX2 + FMA tile kernels; compiled with the flags that CMakeLists.txt names for this file.
#include <immintrin.h>

#include "kernels/attention/cpu/tile_impl.h"

namespace forerun {
namespace {

struct Avx2 {
  using V = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kMaxQueries = 2;  // 16 registers

  static V set(float x) { return _mm256_set1_ps(x); }
  static V load(const float* from) { return _mm256_loadu_ps(from); }
  // The same four floats in both halves.
  static V repeat4(const float* from) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
  }
  static void unpack(const float* from, V* to) { *to = _mm256_loadu_ps(from); }
  static void unpack(const uint16_t* from, V* to) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    to[1] = _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u))));
  }
  static void store(float* to, V x) { _mm256_storeu_ps(to, x); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
  // 2^n from n + 1.5 * 2^23.
  static V pow2_of_shifted(V shifted) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
  }
  static V zero_where_below(V x, V t, V limit) {
    return _mm256_and_ps(_mm256_cmp_ps(t, limit, _CMP_NLT_UQ), x);
  }
  static float sum_lanes(V x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  static float max_lane(V x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  static float first_lane(V x) { return _mm256_cvtss_f32(x); }

  // Lane 2i + j is the sum of half j of v[i].
  static V sum_fours(const V* v) {
    const V low = _mm256_hadd_ps(v[0], v[1]);
    const V high = _mm256_hadd_ps(v[2], v[3]);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_ps(_mm256_hadd_ps(low, high), order);
  }
};

}  // namespace

const AttentionKernels& attention_kernels_avx2() {
  static constexpr AttentionKernels kKernels = make_kernels<Avx2>();
  return kKernels;
}

}  // namespace forerun
