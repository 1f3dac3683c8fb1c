// The AVX2 + FMA tile kernels.
#include "kernels/simd/avx2.h"

#include "kernels/attention/cpu/tile_impl.h"

namespace forerun {

const AttentionKernels& attention_kernels_avx2() {
  static constexpr AttentionKernels kKernels = make_kernels<simd::Avx2>();
  return kKernels;
}

}  // namespace forerun
