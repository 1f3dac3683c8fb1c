// The linear kernels for AVX2 with FMA and F16C. The file is compiled with flags for these;
// kernels/simd/vector.h says what it must not use.
#include "kernels/simd/avx2.h"

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"

namespace forerun {
namespace avx2 {
namespace {
using Vec = simd::Avx2;

#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace avx2

constinit const LinearKernels kLinearAvx2 = avx2::make_kernels("avx2", kGroupedAvx2);

}  // namespace forerun
