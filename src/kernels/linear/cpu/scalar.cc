// The linear kernels in portable C++.
#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace portable {
namespace {
#include "kernels/linear/cpu/vec_portable.inc"
//
#include "kernels/linear/cpu/tiles.inc"
}  // namespace
}  // namespace portable

constinit const LinearKernels kLinearScalar = portable::make_kernels("scalar");

}  // namespace forerun
