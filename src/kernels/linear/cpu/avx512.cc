// The linear kernels for AVX-512 F/BW/DQ/VL and VNNI. The file is compiled with flags for these;
// linear/cpu/tiles.inc says what must not be used in it.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace avx512 {
namespace {
#include "kernels/linear/cpu/vec_avx512.inc"
//
#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace avx512

constinit const LinearKernels kLinearAvx512 = avx512::make_kernels("avx512");

}  // namespace forerun
