// The portable tile kernels: eight lanes, with products and sums rounded separately, since a fused
// multiply-add without the instruction is a slow library call.
#include "kernels/simd/scalar.h"

#include "kernels/attention/cpu/tile_impl.h"
#include "kernels/simd/twice.h"

namespace forerun {

const AttentionKernels& attention_kernels_scalar() {
  static constexpr AttentionKernels kKernels = make_kernels<simd::Twice<simd::Scalar>>();
  return kKernels;
}

}  // namespace forerun
