// The linear kernels in portable C++.
#include "kernels/simd/scalar.h"

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"

namespace forerun {
namespace portable {
namespace {
using Vec = simd::Scalar;

#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace portable

constinit const LinearKernels kLinearScalar = portable::make_kernels("scalar", kGroupedScalar);

}  // namespace forerun
