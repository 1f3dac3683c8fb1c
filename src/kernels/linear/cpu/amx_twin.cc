// The linear kernels of linear/cpu/amx.cc with emulated tile registers
// (kernels/simd/amx_emulated.h): slow, but with the same bits on CPUs without AMX. The file is
// compiled with flags for AVX-512; kernels/simd/vector.h says what it must not use.
#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/amx_emulated.h"

namespace forerun {
namespace amx_twin {
namespace {
using Vec = simd::Avx512;
using Tiles = simd::EmulatedTiles;

#include "kernels/linear/cpu/tiles.inc"
//
#include "kernels/linear/cpu/tile_dots.inc"
}  // namespace
}  // namespace amx_twin

constinit const LinearKernels kLinearAmxTwin =
    amx_twin::make_tile_kernels("amx", kGroupedAvx512, kGroupedTilesAmxTwin);

}  // namespace forerun
