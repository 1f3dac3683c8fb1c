// The kernels of grouped weights in portable C++.
#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/scalar.h"

namespace forerun {
namespace portable_grouped {
namespace {
using Vec = simd::Scalar;

#include "kernels/linear/cpu/tiles_base.inc"
//
#include "kernels/linear/cpu/tiles_grouped.inc"
}  // namespace
}  // namespace portable_grouped

constinit const GroupedKernels kGroupedScalar = portable_grouped::make_grouped_kernels();

}  // namespace forerun
