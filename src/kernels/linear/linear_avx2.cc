// The linear kernels for AVX2 with FMA and F16C. Compiled with those flags: see linear_tiles.inc
// for what may not be used here.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear_kernels.h"
#include "kernels/linear/linear_macros.h"

namespace forerun {
namespace avx2 {
namespace {
#include "kernels/linear/vec_avx2.inc"
//
#include "kernels/linear/linear_tiles.inc"
}  // namespace
}  // namespace avx2

constinit const LinearKernels kLinearAvx2 = avx2::make_kernels("avx2");

}  // namespace forerun
