// The linear kernels in portable C++.
#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear_kernels.h"
#include "kernels/linear/linear_macros.h"

namespace forerun {
namespace portable {
namespace {
#include "kernels/linear/vec_portable.inc"
//
#include "kernels/linear/linear_tiles.inc"
}  // namespace
}  // namespace portable

constinit const LinearKernels kLinearScalar = portable::make_kernels("scalar");

}  // namespace forerun
