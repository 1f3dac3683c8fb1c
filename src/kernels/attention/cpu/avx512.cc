// AVX-512 tile kernels; compiled with the flags that CMakeLists.txt names for this file.
#include "kernels/attention/cpu/tile_impl.h"
#include "kernels/attention/cpu/vec_avx512.h"

namespace forerun {

const AttentionKernels& attention_kernels_avx512() {
  static constexpr AttentionKernels kKernels = make_kernels<Avx512>();
  return kKernels;
}

}  // namespace forerun
