// The linear kernels for AVX2 with FMA and F16C. The file is compiled with flags for these;
// linear/cpu/tiles.inc says what must not be used in it.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace avx2 {
namespace {
#include "kernels/linear/cpu/vec_avx2.inc"
//
#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace avx2

constinit const LinearKernels kLinearAvx2 = avx2::make_kernels("avx2");

}  // namespace forerun
