// The kernels of grouped weights for AVX2 with FMA and F16C. The file is compiled with flags for
// these; kernels/simd/vector.h says what it must not use.
#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/avx2.h"

namespace forerun {
namespace avx2_grouped {
namespace {
using Vec = simd::Avx2;

#include "kernels/linear/cpu/tiles_base.inc"
//
#include "kernels/linear/cpu/tiles_grouped.inc"
}  // namespace
}  // namespace avx2_grouped

constinit const GroupedKernels kGroupedAvx2 = avx2_grouped::make_grouped_kernels();

}  // namespace forerun
