// The kernels of linear/cpu/amx_grouped.cc with emulated tile registers
// (kernels/simd/amx_emulated.h). The file is compiled with flags for AVX-512; kernels/simd/vector.h
// says what it must not use.
#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/amx_emulated.h"

namespace forerun {
namespace amx_twin_grouped {
namespace {
using Vec = simd::Avx512;
using Tiles = simd::EmulatedTiles;

#include "kernels/linear/cpu/tiles_base.inc"
//
#include "kernels/linear/cpu/tiles_grouped_format.inc"
//
#include "kernels/linear/cpu/tile_dots_grouped.inc"
}  // namespace
}  // namespace amx_twin_grouped

constinit const GroupedTileKernels kGroupedTilesAmxTwin = amx_twin_grouped::make_grouped_tiles();

}  // namespace forerun
