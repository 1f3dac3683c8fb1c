// The tile kernels of AVX-512 with bf16 products.
#include "kernels/simd/avx512_bf16.h"

#include "kernels/attention/cpu/bf16_dot.h"

namespace forerun {

const AttentionTypeKernels& attention_kernels_bf16_dot() {
  static constexpr AttentionTypeKernels kKernels = bf16_dot_kernels<simd::Avx512Bf16>();
  return kKernels;
}

}  // namespace forerun
