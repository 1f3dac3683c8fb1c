// The kernels of attention/cpu/bf16_dot.h with the instructions spelled out in AVX-512F, so that
// their logic is tested on processors without AVX512_BF16. Only the test links this.
#include "kernels/attention/cpu/bf16_dot.h"
#include "kernels/simd/avx512_bf16_emulated.h"

namespace forerun {

const AttentionTypeKernels& attention_kernels_bf16_dot_emulated();
const AttentionTypeKernels& attention_kernels_bf16_dot_emulated() {
  static constexpr AttentionTypeKernels kKernels = bf16_dot_kernels<simd::EmulatedBf16>();
  return kKernels;
}

}  // namespace forerun
