// The linear kernels for CPUs with AMX. The file is compiled with flags for AMX;
// kernels/simd/vector.h says what it must not use.
//
// docs/log/2026-11-24-tiles-on-processors.md compares them with AVX512_BF16.
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
