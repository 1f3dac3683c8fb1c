// The linear kernels for AVX-512 F/BW/DQ/VL and VNNI. The file is compiled with flags for these;
// kernels/simd/vector.h says what it must not use.
#include "kernels/simd/avx512.h"

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"

namespace forerun {
namespace avx512 {
namespace {
using Vec = simd::Avx512;

#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace avx512

constinit const LinearKernels kLinearAvx512 = avx512::make_kernels("avx512", kGroupedAvx512);

}  // namespace forerun
