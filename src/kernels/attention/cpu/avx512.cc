// The AVX-512 tile kernels.
#include "kernels/simd/avx512.h"

#include "kernels/attention/cpu/tile_impl.h"

namespace forerun {

const AttentionKernels& attention_kernels_avx512() {
  static constexpr AttentionKernels kKernels = make_kernels<simd::Avx512>();
  return kKernels;
}

}  // namespace forerun
