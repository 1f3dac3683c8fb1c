// The kernels of grouped weights for CPUs with AMX. The file is compiled with flags for AMX;
// kernels/simd/vector.h says what it must not use.
#include <cstddef>
#include <cstdint>

#include "base/sanitized.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/avx512.h"

namespace forerun {
namespace amx_grouped {
namespace {
using Vec = simd::Avx512;
using Tiles = simd::AmxTiles;

#include "kernels/linear/cpu/tiles_base.inc"
//
#include "kernels/linear/cpu/tiles_grouped_format.inc"
//
#include "kernels/linear/cpu/tile_dots_grouped.inc"
}  // namespace
}  // namespace amx_grouped

constinit const GroupedTileKernels kGroupedTilesAmx = amx_grouped::make_grouped_tiles();

}  // namespace forerun
