// The kernels of attention/cpu/bf16_dot.h with the instructions written in AVX-512F, so that CPUs
// without AVX512_BF16 can test their logic. Only the test links this.
#include "kernels/attention/cpu/bf16_dot.h"
#include "kernels/simd/avx512_bf16_emulated.h"

namespace forerun {

const AttentionTypeKernels& attention_kernels_bf16_dot_emulated();
const AttentionTypeKernels& attention_kernels_bf16_dot_emulated() {
  static constexpr AttentionTypeKernels kKernels = bf16_dot_kernels<simd::EmulatedBf16>();
  return kKernels;
}

}  // namespace forerun
