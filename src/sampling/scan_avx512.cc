// Compiled for AVX-512 F/BW/DQ/VL.
#include <immintrin.h>

#include "sampling/scan.h"

namespace forerun {
namespace {

using F = __m512;
using U = __m512i;

inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline void storeu(uint32_t* p, U v) { _mm512_storeu_si512(p, v); }
inline F set1f(float v) { return _mm512_set1_ps(v); }
inline U set1u(uint32_t v) { return _mm512_set1_epi32(static_cast<int>(v)); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline U addu(U a, U b) { return _mm512_add_epi32(a, b); }
inline U subu(U a, U b) { return _mm512_sub_epi32(a, b); }
inline U srl8(U a) { return _mm512_srli_epi32(a, 8); }
inline U sll1(U a) { return _mm512_slli_epi32(a, 1); }
inline F to_float(U a) { return _mm512_cvtepi32_ps(a); }
inline U float_bits(F a) { return _mm512_castps_si512(a); }
inline uint32_t at_least_mask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
inline uint32_t not_less_mask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }

inline U lane_counters() {
  return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

inline U xor3(U a, U b, U c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
inline U high_half(U a) { return _mm512_srli_epi64(a, 32); }
inline U mul_low_halves(U a, uint32_t factor) { return _mm512_mul_epu32(a, set1u(factor)); }
// Low halves of `even` and of `odd` in turn.
inline U interleave(U even, U odd) {
  return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}

// Transposes the 4 x 4 words of every 128 bits.
inline void transpose4(U a, U b, U c, U d, U out[4]) {
  const U ab_low = _mm512_unpacklo_epi32(a, b);
  const U ab_high = _mm512_unpackhi_epi32(a, b);
  const U cd_low = _mm512_unpacklo_epi32(c, d);
  const U cd_high = _mm512_unpackhi_epi32(c, d);
  out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// y * 2^n, n the integer in the low bits of `shifted`.
inline F scale_by_power(F y, F shifted) {
  const U exponent = _mm512_slli_epi32(float_bits(shifted), 23);
  return _mm512_castsi512_ps(addu(float_bits(y), exponent));
}
inline F zero_unless_at_least(F a, F b, F value) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), value);
}

class WeightSum {
 public:
  void add(F e) {
    add_half(_mm512_castps512_ps256(e));
    add_half(_mm512_extractf32x8_ps(e, 1));
  }
  uint64_t total() const {
    alignas(64) uint64_t parts[8];
    _mm512_store_si512(parts, sum_);
    uint64_t total = 0;
    for (uint64_t part : parts) total += part;
    return total;
  }

 private:
  void add_half(__m256 e) {
    const __m512d scaled = _mm512_mul_pd(_mm512_cvtps_pd(e), _mm512_set1_pd(kFixedWeightScale));
    sum_ = _mm512_add_epi64(sum_, _mm512_cvtpd_epi64(scaled));  // to nearest, ties to even
  }
  __m512i sum_ = _mm512_setzero_si512();
};

#include "sampling/scan_simd.inc"

}  // namespace

const ScanKernels& scan_kernels_avx512() {
  static constexpr ScanKernels kKernels = {lane_max_simd, noise_survivors_simd, collect_simd,
                                           exp_weights_simd};
  return kKernels;
}

}  // namespace forerun
