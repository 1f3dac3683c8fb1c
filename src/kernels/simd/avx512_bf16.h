// AVX-512 vectors with products of bf16: AVX512_BF16 (Zen 4, Sapphire Rapids).
#pragma once

#include "kernels/simd/avx512.h"

namespace forerun {
namespace simd {
namespace {

struct Avx512Bf16 : Avx512 {
  // Returns sum + a.odd * b.odd + a.even * b.even of the lanes' pairs of bf16 (vdpbf16ps: the odd
  // products are added first, denormals count as zero).
  FORERUN_INLINE F dot_bf16(F sum, I a, I b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  // Rounds 32 floats to bf16: to nearest, ties to even, denormals to zero.
  FORERUN_INLINE I to_bf16(F low, F high) {
    return reinterpret_cast<I>(_mm512_cvtne2ps_pbh(high, low));
  }
};

}  // namespace
}  // namespace simd
}  // namespace forerun
