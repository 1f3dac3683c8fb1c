// Compiled for AVX2; 16 lanes are two registers.
#include <immintrin.h>

#include "sampling/scan.h"

namespace forerun {
namespace {

struct F {
  __m256 low, high;
};
struct U {
  __m256i low, high;
};

inline F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
inline void storeu(uint32_t* p, U v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), v.high);
}
inline F set1f(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
inline U set1u(uint32_t v) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(v));
  return {all, all};
}
inline F add(F a, F b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline F sub(F a, F b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline F mul(F a, F b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline F max(F a, F b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline U addu(U a, U b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline U subu(U a, U b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline U srl8(U a) { return {_mm256_srli_epi32(a.low, 8), _mm256_srli_epi32(a.high, 8)}; }
inline U sll1(U a) { return {_mm256_slli_epi32(a.low, 1), _mm256_slli_epi32(a.high, 1)}; }
inline F to_float(U a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline U float_bits(F a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
inline uint32_t mask_of(__m256 low, __m256 high) {
  return static_cast<uint32_t>(_mm256_movemask_ps(low)) |
         static_cast<uint32_t>(_mm256_movemask_ps(high)) << 8;
}
inline uint32_t at_least_mask(F a, F b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ));
}
inline uint32_t not_less_mask(F a, F b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_NLT_UQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_NLT_UQ));
}

inline U lane_counters() {
  return {_mm256_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13),
          _mm256_setr_epi32(2, 6, 10, 14, 3, 7, 11, 15)};
}

inline U xor3(U a, U b, U c) {
  return {_mm256_xor_si256(_mm256_xor_si256(a.low, b.low), c.low),
          _mm256_xor_si256(_mm256_xor_si256(a.high, b.high), c.high)};
}
inline U high_half(U a) { return {_mm256_srli_epi64(a.low, 32), _mm256_srli_epi64(a.high, 32)}; }
inline U mul_low_halves(U a, uint32_t factor) {
  const __m256i b = _mm256_set1_epi32(static_cast<int>(factor));
  return {_mm256_mul_epu32(a.low, b), _mm256_mul_epu32(a.high, b)};
}
// Low halves of `even` and of `odd` in turn.
inline U interleave(U even, U odd) {
  return {_mm256_blend_epi32(even.low, _mm256_slli_epi64(odd.low, 32), 0xAA),
          _mm256_blend_epi32(even.high, _mm256_slli_epi64(odd.high, 32), 0xAA)};
}

// Transposes the 4 x 4 words of every 128 bits.
inline void transpose4(U a, U b, U c, U d, U out[4]) {
  const auto half = [](__m256i e, __m256i f, __m256i g, __m256i h, __m256i result[4]) {
    const __m256i ef_low = _mm256_unpacklo_epi32(e, f);
    const __m256i ef_high = _mm256_unpackhi_epi32(e, f);
    const __m256i gh_low = _mm256_unpacklo_epi32(g, h);
    const __m256i gh_high = _mm256_unpackhi_epi32(g, h);
    result[0] = _mm256_unpacklo_epi64(ef_low, gh_low);
    result[1] = _mm256_unpackhi_epi64(ef_low, gh_low);
    result[2] = _mm256_unpacklo_epi64(ef_high, gh_high);
    result[3] = _mm256_unpackhi_epi64(ef_high, gh_high);
  };
  __m256i low[4], high[4];
  half(a.low, b.low, c.low, d.low, low);
  half(a.high, b.high, c.high, d.high, high);
  for (int part = 0; part < 4; ++part) out[part] = {low[part], high[part]};
}

// y * 2^n, n the integer in the low bits of `shifted`.
inline F scale_by_power(F y, F shifted) {
  const U bits = float_bits(shifted);
  const U sum =
      addu(float_bits(y), U{_mm256_slli_epi32(bits.low, 23), _mm256_slli_epi32(bits.high, 23)});
  return {_mm256_castsi256_ps(sum.low), _mm256_castsi256_ps(sum.high)};
}
inline F zero_unless_at_least(F a, F b, F value) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ), value.low),
          _mm256_and_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ), value.high)};
}

class WeightSum {
 public:
  void add(F e) {
    add_quarter(_mm256_castps256_ps128(e.low));
    add_quarter(_mm256_extractf128_ps(e.low, 1));
    add_quarter(_mm256_castps256_ps128(e.high));
    add_quarter(_mm256_extractf128_ps(e.high, 1));
  }
  uint64_t total() const {
    alignas(32) uint64_t parts[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sum_);
    return parts[0] + parts[1] + parts[2] + parts[3];
  }

 private:
  void add_quarter(__m128 e) {
    // Adding 2^52 leaves the integer, rounded to nearest with ties to even, in the low bits.
    const __m256d magic = _mm256_set1_pd(0x1p52);
    const __m256d scaled = _mm256_mul_pd(_mm256_cvtps_pd(e), _mm256_set1_pd(kFixedWeightScale));
    const __m256i bits = _mm256_castpd_si256(_mm256_add_pd(scaled, magic));
    sum_ = _mm256_add_epi64(sum_, _mm256_sub_epi64(bits, _mm256_castpd_si256(magic)));
  }
  __m256i sum_ = _mm256_setzero_si256();
};

#include "sampling/scan_simd.inc"

}  // namespace

const ScanKernels& scan_kernels_avx2() {
  static constexpr ScanKernels kKernels = {lane_max_simd, noise_survivors_simd, collect_simd,
                                           exp_weights_simd};
  return kKernels;
}

}  // namespace forerun
