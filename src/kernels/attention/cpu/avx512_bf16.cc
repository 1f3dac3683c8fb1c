// Tile kernels of AVX-512 with bf16 products; compiled with the flags that CMakeLists.txt names for
// this file.
#include "kernels/attention/cpu/bf16_dot.h"

namespace forerun {
namespace {

struct Bf16Dot {
  static __m512 dot(__m512 acc, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  static __m512i round(__m512 low, __m512 high) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
};

}  // namespace

const AttentionTypeKernels& attention_kernels_bf16_dot() {
  static constexpr AttentionTypeKernels kKernels = bf16_dot_kernels<Bf16Dot>();
  return kKernels;
}

}  // namespace forerun
