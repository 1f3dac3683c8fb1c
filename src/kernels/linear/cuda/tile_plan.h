// The distribution of a layer over blocks for the linear kernel for many rows
// (linear/cuda/tiles.cu). It is host arithmetic only, so tests need no GPU.
//
// A tile is kBlockTiles x 32 outputs times up to kTileRows rows. The sum of an output is a sum of
// chains in order; a chain is the range of inputs of one of the `slice_k_warps` of one block of a
// cluster in LinearPlan. If there are fewer tiles than SMs, several blocks share a tile's chains:
// each stores its pieces of the sums in memory and finishes some of the tile's rows. This is
// split-K in a fixed order: a row's bits do not depend on the split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {

inline constexpr int kBlockTilesLog2 = 2;
// Tiles of 32 outputs that a block multiplies at once.
inline constexpr int kBlockTiles = 1 << kBlockTilesLog2;
inline constexpr int kWideBlockTiles = 8;  // for bf16 layers whose sums are one chain each
inline constexpr int kTileRows = 128;
inline constexpr int kTileN8Tiles = kTileRows / 8;
// Tiles of at most this many rows use instructions for this many rows.
inline constexpr int kFewTileRows = 64;

// Floats of a block's piece of a tile's sums.
inline constexpr int kPieceFloats = kBlockTiles * kTileOutputs * kTileRows;
// The largest number of pieces of one launch, their bytes, and the largest number of split tiles,
// each of which has a counter.
inline constexpr int kMaxPieces = 512;
inline constexpr size_t kLinearPieceBytes = size_t{kMaxPieces} * kPieceFloats * sizeof(float);
inline constexpr int kMaxSplitTiles = kMaxPieces / 2;
// The largest number of rows of one launch of the kernel for many rows.
inline constexpr int kMaxLinearRows = 4096;

struct LinearTiling {
  int block_tiles = kBlockTiles;
  int row_tiles = 1;
  int tile_rows = kTileRows;  // a multiple of 8; the last tile may have fewer
  int splits = 1;             // blocks that share a tile
  int chains = 1;  // chains per block; each piece is the sum of `chains_per_piece` chains
  int chains_per_piece = 1;
  int pieces = 1;  // pieces per tile; 1 if it is not split
  int blocks = 1;  // blocks of the launch; they take tiles (or parts of tiles) round-robin
};

// Returns the tiling. `may_be_wide` says that linear_wide_tiles_kernel supports the layer's
// epilogue.
LinearTiling plan_tiles(const LinearPlan& plan, int rows, int multiprocessors,
                        bool may_be_wide = false);

}  // namespace forerun::cuda
