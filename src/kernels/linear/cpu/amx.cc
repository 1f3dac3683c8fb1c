// The linear kernels for processors with AMX. The file is compiled with flags for AMX;
// kernels/simd/vector.h says what must not be used in it.
//
// 2048 x 8192 bf16, two Emerald Rapids cores, two layers in turn, ms at 1 / 4 / 8 / 16 / 512 rows:
// AVX512_BF16 1.24 / 1.85 / 3.17 / 6.32 / 212, tiles 1.25 / 1.20 / 1.24 / 1.33 / 26.6.
#include "kernels/simd/amx.h"

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/avx512.h"

namespace forerun {
namespace amx {
namespace {
using Vec = simd::Avx512;
using Tiles = simd::AmxTiles;

#include "kernels/linear/cpu/tiles.inc"
//
#include "kernels/linear/cpu/tile_dots.inc"
}  // namespace
}  // namespace amx

constinit const LinearKernels kLinearAmx =
    amx::make_tile_kernels("amx", kGroupedAvx512, kGroupedTilesAmx);

}  // namespace forerun
