// The linear kernels for AVX-512 with VNNI and BF16. The file is compiled with flags for these;
// kernels/simd/vector.h says what it must not use.
//
// Only bf16 pairs use the dot instruction (docs/decisions/0006-cpu-simd.md says why).
#include "kernels/simd/avx512_bf16.h"

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"

namespace forerun {
namespace avx512_bf16 {
namespace {
using Vec = simd::Avx512Bf16;

#include "kernels/linear/cpu/tiles.inc"
//
#include "kernels/linear/cpu/bf16_dot.inc"
}  // namespace
}  // namespace avx512_bf16

constinit const LinearKernels kLinearAvx512Bf16 =
    avx512_bf16::make_bf16_dot_kernels("avx512_bf16", kGroupedAvx512);

constinit const LinearKernels kLinearAvx512Bf16ByFmas = [] {
  LinearKernels kernels = avx512_bf16::make_bf16_dot_kernels("avx512_bf16", kGroupedAvx512);
  kernels.bf16_pairs = avx512_bf16::pairs_by_fmas;
  return kernels;
}();

}  // namespace forerun
