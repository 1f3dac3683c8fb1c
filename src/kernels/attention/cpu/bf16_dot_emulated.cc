// The kernels of attention/cpu/bf16_dot.h with the instructions spelled out in AVX-512F, so that
// their logic is tested on processors without AVX512_BF16. Only the test links this.
#include "kernels/attention/cpu/bf16_dot.h"

namespace forerun {
namespace {

struct EmulatedBf16Dot {
  static __m512 even(__m512i v) { return flushed(_mm512_slli_epi32(v, 16)); }
  static __m512 odd(__m512i v) {
    return flushed(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))));
  }
  static __m512 dot(__m512 acc, __m512i a, __m512i b) {
    acc = _mm512_fmadd_ps(odd(a), odd(b), acc);
    return _mm512_fmadd_ps(even(a), even(b), acc);
  }
  static __m512i round(__m512 low, __m512 high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(round_half(low)), round_half(high), 1);
  }

 private:
  // Denormal numbers count as zero.
  static __m512 flushed(__m512i bits) {
    const __mmask16 normal = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(normal, bits));
  }
  // To nearest, ties to even.
  static __m256i round_half(__m512 x) {
    const __m512i bits = _mm512_castps_si512(flushed(_mm512_castps_si512(x)));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
  }
};

}  // namespace

const AttentionTypeKernels& attention_kernels_bf16_dot_emulated();
const AttentionTypeKernels& attention_kernels_bf16_dot_emulated() {
  static constexpr AttentionTypeKernels kKernels = bf16_dot_kernels<EmulatedBf16Dot>();
  return kKernels;
}

}  // namespace forerun
