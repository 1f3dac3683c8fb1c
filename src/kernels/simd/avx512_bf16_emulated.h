// The operations of avx512_bf16.h in plain AVX-512, so that CPUs without AVX512_BF16 can test the
// code that uses them.
#pragma once

#include "kernels/simd/avx512.h"

namespace forerun {
namespace simd {
namespace {

struct EmulatedBf16 : Avx512 {
  FORERUN_INLINE F dot_bf16(F sum, I a, I b) {
    sum = fma(odd(a), odd(b), sum);
    return fma(even(a), even(b), sum);
  }
  FORERUN_INLINE I to_bf16(F low, F high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(half_to_bf16(low)), half_to_bf16(high), 1);
  }

 private:
  FORERUN_INLINE F even(I pairs) { return flushed(even_bf16<Avx512>(pairs)); }
  FORERUN_INLINE F odd(I pairs) { return flushed(odd_bf16<Avx512>(pairs)); }
  // Returns `a` with denormal numbers replaced by zero.
  FORERUN_INLINE F flushed(F a) {
    return zero_unless(_mm512_test_epi32_mask(as_int(a), set1_int(0x7f800000)), a);
  }
  FORERUN_INLINE __m256i half_to_bf16(F a) {
    const I bits = as_int(flushed(a));
    const I odd = and_int(shift_right<16>(bits), set1_int(1));
    const I rounded = add_int(bits, add_int(odd, set1_int(0x7fff)));
    const I quiet = or_int(bits, set1_int(0x00400000));
    return _mm512_cvtepi32_epi16(shift_right<16>(select_int(is_nan(a), quiet, rounded)));
  }
};

}  // namespace
}  // namespace simd
}  // namespace forerun
