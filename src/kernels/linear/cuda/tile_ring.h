// The pipeline of a block of the linear kernels for many rows (linear/cuda/tiles.cu,
// linear/cuda/wide_tiles.cu): stages, their order and their copies. Only these kernels and a test
// include it. Device code, except for the constructor of TileSplit.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/scratch.h"
#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {

// A stage of the ring holds the activations of its units, in boxes of kBoxInputs inputs x all rows,
// then the units of the weights, [unit][tile].
template <LinearFormat kFormat, int kRowCount, int kInputs, int kTileCount = kBlockTiles>
struct TileStage {
  static constexpr LinearFormat kWeightFormat = kFormat;
  static constexpr int kRows = kRowCount;
  static constexpr int kN8Tiles = kRows / 8;
  static constexpr int kTiles = kTileCount;
  static constexpr int kBoxInputs = kInputs;  // 32 or 64
  static constexpr int kUnits = kFormat == LinearFormat::kBf16 ? 2 : 1;
  static constexpr int kBoxes = kUnits * unit_inputs(kFormat) / kBoxInputs;
  static constexpr int kBoxBytes = kRows * kBoxInputs * 2;
  static constexpr int kWeightOffset = kBoxes * kBoxBytes;
  // Sums of the activations of groups with minima (linear/cuda/group_sums.h).
  static constexpr int kSumsOffset = kWeightOffset + kUnits * kTiles * stage_bytes(kFormat);
  static constexpr int kSumsBytes = kN8Tiles * group_sum_bytes(min_groups(kFormat));
  static constexpr int kBytes = kSumsOffset + kSumsBytes;
  static_assert(kBytes % 512 == 0 && kBoxBytes % 1024 == 0);

  // Returns the offset of the 16 inputs of a step; the steps of the stage's units are numbered in
  // order.
  static constexpr int step_offset(int step) {
    constexpr int kBoxSteps = kBoxInputs / 16;
    return step / kBoxSteps * kBoxBytes + step % kBoxSteps * 32;
  }
};

// The launch's LinearTiling and the memory in which the blocks that share a tile store their sums.
struct TileSplit {
  int block_tiles, row_tiles, tile_rows, num_work_tiles;
  // 2^32 / row_tiles, rounded up; unused if row_tiles is 1. Exact for fewer than 2^27 tiles.
  uint32_t row_tiles_inverse;
  int count_log2;  // log2 of the number of blocks that share a tile
  int chains, chains_per_piece, pieces;
  // scratch.sums: [tile][piece][kPieceFloats], in the layout of sum_offset(); scratch.arrivals:
  // [tile].
  LinearScratchCuda scratch;

  // `output_tiles` is the number of the layer's tiles of 32 outputs.
  TileSplit(const LinearTiling& tiling, int output_tiles, const LinearScratchCuda& scratch_memory)
      : block_tiles(tiling.block_tiles),
        row_tiles(tiling.row_tiles),
        tile_rows(tiling.tile_rows),
        num_work_tiles(ceil_div(output_tiles, tiling.block_tiles) * tiling.row_tiles *
                       tiling.splits),
        row_tiles_inverse(0xffffffffu / static_cast<uint32_t>(tiling.row_tiles) + 1),
        count_log2(std::countr_zero(static_cast<unsigned>(tiling.splits))),
        chains(tiling.chains),
        chains_per_piece(tiling.chains_per_piece),
        pieces(tiling.pieces),
        scratch(scratch_memory) {}

  // Returns the number of the block, among those that share a tile, that takes work `index` or
  // finishes the tile's n8 tile number `index`.
  __device__ __forceinline__ int share_of(int index) const {
    return index & ((1 << count_log2) - 1);
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The units that one warp of linear_kernel would multiply: `count` units, `1 << slice_k_warps_log2`
// apart. Chains are numbered through the warps of a cluster's first block, then of its second, and
// so on.
struct Chain {
  int first, count;
  __device__ __forceinline__ Chain(const LinearKernelArgs& args, int index) {
    const int slice_k_warps = 1 << args.slice_k_warps_log2;
    const int input_warp = index & (slice_k_warps - 1);
    const BlockUnits block(args, index >> args.slice_k_warps_log2);
    first = block.first + input_warp;
    count = (block.count - input_warp + slice_k_warps - 1) >> args.slice_k_warps_log2;
  }
};

// A warp's position in a ring. Producers and consumers each advance their own copy in the same way.
template <int kStages, int kStageBytes>
struct TileRing {
  uint32_t data, full, empty;  // stage 0 and the barriers of all stages
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ uint32_t address() const { return data + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t full_barrier() const { return full + stage * 8; }
  __device__ __forceinline__ uint32_t empty_barrier() const { return empty + stage * 8; }
  __device__ __forceinline__ void wait_full() const { barrier_wait(full_barrier(), parity); }
  __device__ __forceinline__ void wait_empty() const { barrier_wait(empty_barrier(), parity ^ 1); }
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// One work item of a block: a tile, or some chains of a tile.
struct TileWork {
  int tile;   // index of a tile of outputs and rows, in the order in which blocks take them
  int split;  // index among the blocks that share the tile
  int first_tile, first_row;
  int rows;  // rows of the tile

  // Row tiles change fastest, so that concurrent blocks share weights.
  __device__ __forceinline__ TileWork(const LinearKernelArgs& args, const TileSplit& split_of,
                                      int work)
      : tile(work >> split_of.count_log2), split(work - (tile << split_of.count_log2)) {
    // The compiler's integer division would take longer than the rest of this constructor.
    const int block =
        split_of.row_tiles == 1
            ? tile
            : static_cast<int>(__umulhi(static_cast<uint32_t>(tile), split_of.row_tiles_inverse));
    first_tile = block * split_of.block_tiles;
    first_row = (tile - block * split_of.row_tiles) * split_of.tile_rows;
    rows = min(split_of.tile_rows, args.rows - first_row);
  }
};

// Calls copy(first_unit, units) for each stage of `work`, in the order of multiplication; a stage
// holds `units` units of a chain from `first_unit` on. The ring's current stage is empty during the
// call; the ring advances after it.
template <class Stage, class Ring, class Copy>
__device__ __forceinline__ void fill_ring(const LinearKernelArgs& args, const TileSplit& split,
                                          const TileWork& work, Ring& ring, Copy copy) {
  const int first = work.split * split.chains;
  for (int chain_idx = first; chain_idx < first + split.chains; ++chain_idx) {
    const Chain chain(args, chain_idx);
    int first_unit = chain.first;
    for (int left = chain.count; left > 0; left -= Stage::kUnits) {
      ring.wait_empty();
      copy(first_unit, min(Stage::kUnits, left));
      first_unit += Stage::kUnits << args.slice_k_warps_log2;
      ring.advance();
    }
  }
}

// Loads the weights of `work`. All lanes of a warp call it; each lane copies a unit of a tile,
// since one lane alone would take longer to issue the copies (a layer of 1,024 rows took 620 us
// instead of 519).
template <class Stage, class Ring>
__device__ __forceinline__ void request_weights(const LinearKernelArgs& args,
                                                const TileSplit& split, const TileWork& work,
                                                Ring& ring, int tiles, int lane) {
  constexpr LinearFormat kFormat = Stage::kWeightFormat;
  static_assert(Stage::kUnits * Stage::kTiles <= 32);
  const int block_tiles = min(Stage::kTiles, tiles - work.first_tile);
  const int tile = lane % Stage::kTiles;
  const int unit = lane / Stage::kTiles;
  const std::byte* const from =
      args.weight + (static_cast<int64_t>(work.first_tile + tile) * args.units +
                     (unit << args.slice_k_warps_log2)) *
                        unit_bytes(kFormat);
  fill_ring<Stage>(args, split, work, ring, [&](int first_unit, int units) {
    const uint32_t barrier = ring.full_barrier();
    if (lane == 0) barrier_arrive_expect_tx(barrier, units * block_tiles * unit_bytes(kFormat));
    __syncwarp();
    if (tile < block_tiles && unit < units) {
      bulk_copy(ring.address() + Stage::kWeightOffset + lane * stage_bytes(kFormat),
                from + static_cast<int64_t>(first_unit) * unit_bytes(kFormat), unit_bytes(kFormat),
                barrier);
    }
  });
}

// Loads the activations of `work`; each lane copies a box of tile_rows rows. Old data behind them
// in the ring's stage are multiplied into sums that no thread reads.
template <class Stage, class Ring>
__device__ __forceinline__ void request_inputs(const LinearKernelArgs& args, const TileSplit& split,
                                               const TileWork& work, const CUtensorMap& map,
                                               Ring& ring, int lane) {
  constexpr int kInputs = unit_inputs(Stage::kWeightFormat);
  static_assert(Stage::kBoxes <= 31);
  constexpr int kSumBytes = group_sum_bytes(min_groups(Stage::kWeightFormat));
  const std::byte* const sums =
      reinterpret_cast<const std::byte*>(args.group_sums) + work.first_row / 8 * kSumBytes;
  const int bytes_of_sums = (work.rows + 7) / 8 * kSumBytes;
  const int unit = lane * Stage::kBoxInputs / kInputs;
  const int column =
      (unit << args.slice_k_warps_log2) * kInputs + lane * Stage::kBoxInputs % kInputs;
  fill_ring<Stage>(args, split, work, ring, [&](int first_unit, int units) {
    const uint32_t barrier = ring.full_barrier();
    if (lane == 0) {
      const int boxes = (units * kInputs - 1) / Stage::kBoxInputs + 1;
      barrier_arrive_expect_tx(barrier,
                               boxes * split.tile_rows * Stage::kBoxInputs * 2 + bytes_of_sums);
    }
    __syncwarp();
    if constexpr (kSumBytes > 0) {
      if (lane == 31) {
        bulk_copy(ring.address() + Stage::kSumsOffset,
                  sums + static_cast<int64_t>(first_unit) * ((args.rows + 7) / 8 * kSumBytes),
                  bytes_of_sums, barrier);
      }
    }
    if (lane < Stage::kBoxes && unit < units) {
      tensor_copy(ring.address() + lane * Stage::kBoxBytes, map, first_unit * kInputs + column,
                  work.first_row, barrier);
    }
  });
}

#endif

}  // namespace forerun::cuda
