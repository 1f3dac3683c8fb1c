// The kernels of grouped weights for AVX-512 F/BW/DQ/VL and VNNI, which the tables of AVX-512 with
// BF16 and of AMX use too. The file is compiled with flags for these; kernels/simd/vector.h says
// what it must not use.
#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/avx512.h"

namespace forerun {
namespace avx512_grouped {
namespace {
using Vec = simd::Avx512;

#include "kernels/linear/cpu/tiles_base.inc"
//
#include "kernels/linear/cpu/tiles_grouped.inc"
//
#include "kernels/linear/cpu/tiles_grouped_bytes.inc"
}  // namespace
}  // namespace avx512_grouped

constinit const GroupedKernels kGroupedAvx512 =
    avx512_grouped::with_byte_stretches(avx512_grouped::make_grouped_kernels());

}  // namespace forerun
