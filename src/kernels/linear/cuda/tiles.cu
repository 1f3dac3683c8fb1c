// The linear kernel for many rows. Persistent blocks take tiles of 128 outputs x up to 128 rows, or
// parts of them, round-robin. One producer warp copies weights (whole units) and another copies
// activations (boxes of a tensor map) into a ring. Two consumer warpgroups of 64 outputs each
// multiply by wgmma, with weights as the operand in registers, so that int4 is converted to f16 on
// the way.
//
// A row has the same bits as in linear_kernel. wgmma adds up 16 inputs exactly as mma does, and the
// plan's split of the inputs is kept: the chains of units that different warps and blocks of
// linear_kernel multiply are computed one after the other here, or by several blocks that share a
// tile (split-K), and added in the same order.
#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_tensor_map.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/tiles_kernel.h"

namespace forerun::cuda {
namespace {

template <int kRows, bool kShared>
TileVariant variant(LinearFormat format, int slice_k_warps, bool gated) {
  if (format == LinearFormat::kInt4Group128) {
    return tile_variant<LinearFormat::kInt4Group128, kRows, 64, kShared>(gated);
  }
  if (format == LinearFormat::kInt8Group64) {
    return tile_variant<LinearFormat::kInt8Group64, kRows, 64, kShared>(gated);
  }
  // Uses wide boxes if a chain's inputs are adjacent, since rows of 64 bytes are copied more
  // slowly.
  return slice_k_warps == 1 ? tile_variant<LinearFormat::kBf16, kRows, 64, kShared>(gated)
                            : tile_variant<LinearFormat::kBf16, kRows, 32, kShared>(gated);
}
// Picks the instantiation for a layer's format and epilogue. `few_rows` means at most kFewTileRows
// rows per tile; `shared` means that several blocks share a tile.
TileVariant variant(LinearFormat format, int slice_k_warps, bool few_rows, bool gated,
                    bool shared) {
  if (is_grouped(format)) return grouped_tile_variant(format, few_rows, gated, shared);
  if (few_rows) {
    return shared ? variant<kFewTileRows, true>(format, slice_k_warps, gated)
                  : variant<kFewTileRows, false>(format, slice_k_warps, gated);
  }
  return shared ? variant<kTileRows, true>(format, slice_k_warps, gated)
                : variant<kTileRows, false>(format, slice_k_warps, gated);
}

}  // namespace

Status prepare_linear_tiles() {
  for (const UnitFormat& format : kUnitFormats) {
    for (const int slice_k_warps : {1, 2}) {
      for (int kind = 0; kind < 8; ++kind) {
        const TileVariant tiles = variant(format.format, slice_k_warps, (kind & 1) != 0,
                                          (kind & 2) != 0, (kind & 4) != 0);
        FORERUN_RETURN_IF_ERROR(raise_shared_memory_limit(
            tiles.kernel, tiles.shared_bytes, "loading the linear kernels for many rows"));
      }
    }
  }
  return prepare_linear_wide_tiles();
}

Status launch_linear_tiles(const LinearPlan& plan, const LinearCall& call,
                           const LinearKernelArgs& args, cudaStream_t stream) {
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  const LinearTiling tiling = plan_tiles(plan, call.rows, multiprocessors, may_be_wide(call));
  if (tiling.block_tiles == kWideBlockTiles) {
    return launch_linear_wide_tiles(plan, call, args, tiling, stream);
  }
  const TileVariant tiles =
      variant(plan.format, plan.slice_k_warps, tiling.tile_rows <= kFewTileRows, call.gated,
              tiling.splits > 1);
  FORERUN_ASSIGN_OR_RETURN(
      const CUtensorMap map,
      tensor_map_16_bit(call.input, call.rows, plan.in_features, call.input_stride,
                        tiling.tile_rows, tiles.box_inputs));
  const TileSplit split(tiling, plan.tiles, call.scratch);
  return launch_dependent(tiles.kernel, dim3(static_cast<unsigned>(tiling.blocks)), dim3(kThreads),
                          static_cast<size_t>(tiles.shared_bytes), stream,
                          "launching a linear layer for many rows", args, map, split, plan.tiles);
}

}  // namespace forerun::cuda
