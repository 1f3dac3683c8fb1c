// How the linear kernel for many rows (linear/cuda/tiles.cu) deals a layer out: host arithmetic
// only, so that it is tested where there is no GPU.
//
// A tile is kBlockTiles x 32 outputs times up to kTileRows rows. The sum of an output is a sum of
// chains (LinearPlan: a chain for each warp by input of each block of a cluster), chain after
// chain. Where there are fewer tiles than multiprocessors a tile's chains are split over several
// blocks, which leave their pieces of the sums in memory and each finish some of the tile's rows.
// Sums keep their order, so a row's bits know nothing of the split ("split-K" with a fixed order).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {

inline constexpr int kBlockTilesLog2 = 2;
// Tiles of 32 outputs that a block works on at once.
inline constexpr int kBlockTiles = 1 << kBlockTilesLog2;
inline constexpr int kWideBlockTiles = 8;  // of bf16 whose sums are one chain each
inline constexpr int kTileRows = 128;
inline constexpr int kTileRowBlocks = kTileRows / 8;
// Tiles of no more rows than these are multiplied by instructions of as many.
inline constexpr int kFewTileRows = 64;

// A block's piece of a tile's sums, f32.
inline constexpr int kPieceFloats = kBlockTiles * kTileOutputs * kTileRows;
// Room for the pieces of one launch, and counters, one per tile that is split.
inline constexpr int kMaxPieces = 512;
inline constexpr size_t kLinearPieceBytes = size_t{kMaxPieces} * kPieceFloats * sizeof(float);
inline constexpr int kMaxSplitTiles = kMaxPieces / 2;
// Rows that a layer of many rows takes at most.
inline constexpr int kMaxLinearRows = 4096;

struct LinearTiling {
  int block_tiles = kBlockTiles;
  int row_tiles = 1;
  int tile_rows = kTileRows;  // a multiple of 8; the last tile may have fewer
  int splits = 1;             // blocks that share a tile
  int chains = 1;             // of a block; sums of `folded` chains each make a piece
  int folded = 1;
  int pieces = 1;  // of a tile; 1 if it is not split
  int blocks = 1;  // of the launch; they take tiles (or their parts) in turn
};

// `may_be_wide`: what the layer ends in can be made by linear_wide_tiles_kernel.
LinearTiling plan_tiles(const LinearPlan& plan, int rows, int multiprocessors,
                        bool may_be_wide = false);

}  // namespace forerun::cuda
