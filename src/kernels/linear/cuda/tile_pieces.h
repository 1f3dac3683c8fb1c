// Split-K of the linear kernel for many rows (linear/cuda/tiles.cu): the blocks that share a tile
// exchange their pieces of its sums through memory, and each block finishes a part of the tile's
// rows. Device code; only the kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/item.h"
#include "kernels/linear/cuda/tile_frame.h"
#include "kernels/linear/cuda/tile_items.h"
#include "kernels/linear/cuda/tile_plan.h"
#include "kernels/linear/cuda/tile_ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Returns the offset in bytes, in shared memory, of the block's own pieces of the rows that it
// finishes, every 2^count_log2-th n8 tile: [piece][tile][half][8 rows][lane].
template <class Stage>
__device__ __forceinline__ uint32_t own_offset(const TileSplit& split, int own_piece, int tile,
                                               int half, int n, int lane) {
  const int tile_half = own_piece * 2 * kBlockTiles + tile * 2 + half;
  return (((tile_half * Stage::kN8Tiles) >> split.count_log2) + (n >> split.count_log2)) * 512 +
         lane * 16;
}

// Stores a piece for the blocks that share the tile.
template <class Stage>
__device__ __forceinline__ void publish_piece(const TileSplit& split, const TileWork& work,
                                              uint32_t own_sums, int piece,
                                              const float (&block)[Stage::kRows / 2]) {
  const TilePlace place;
  // Without opaque() the compiler would load the parts of this address again for every 8 rows.
  float* const to = opaque(split.scratch.sums +
                           static_cast<int64_t>(work.tile * split.pieces + piece) * kPieceFloats +
                           sum_offset<Stage>(place.tile(), place.half(), 0, place.lane) / 4);
  own_sums += own_offset<Stage>(split, piece - work.split * (split.pieces >> split.count_log2),
                                place.tile(), place.half(), 0, place.lane);
#pragma unroll
  for (int n = 0; n < Stage::kN8Tiles; ++n) {
    if (n * 8 >= work.rows) break;
    const float sums[4] = {block[4 * n], block[4 * n + 1], block[4 * n + 2], block[4 * n + 3]};
    if (split.share_of(n) == work.split) {
      store_shared_sums(own_sums + (n >> split.count_log2) * 512, sums);
    } else {
      store_through_l2(to + n * 128, as_float4(sums));
    }
  }
}

// Returns once all blocks that share the tile have stored their pieces. The consumer threads call
// it.
__device__ __forceinline__ void meet_sharers(const TileSplit& split, int tile) {
  uint32_t* const counter = split.scratch.arrivals + tile;
  const uint32_t count = 1u << split.count_log2;
  named_barrier(1, kConsumers);
  if (threadIdx.x == 0) meet(counter, count, split.scratch.failed);
  named_barrier(1, kConsumers);
  if (threadIdx.x == kConsumers - 1) leave(counter, count);
}

// Adds up all pieces of 8 rows, for both halves of a tile, in the order of the chains. If pieces
// are single chains, they are first added to sums of 2^block_pieces_log2 pieces, one for each block
// of a cluster in LinearPlan. `sums` is the first half of the tile's first piece in memory; the
// block's own pieces are in shared memory. Up to kInFlight pieces are loaded at once, since each
// batch takes a round trip to the L2.
template <class Stage>
__device__ __forceinline__ void add_pieces(const TileSplit& split, int part, const float* sums,
                                           uint32_t own_sums, int block_pieces_log2,
                                           float4 (&total)[2]) {
  constexpr int kInFlight = 8;
  constexpr float4 kMinusZero = {-0.0f, -0.0f, -0.0f, -0.0f};  // x + -0 is x, also for x = -0
  const int own_pieces = split.pieces >> split.count_log2;
  const int first_own = part * own_pieces;
  const int own_half_bytes = (Stage::kN8Tiles * 512) >> split.count_log2;
  const int own_piece_bytes = 2 * kBlockTiles * own_half_bytes;
  float4 block[2] = {kMinusZero, kMinusZero};
  total[0] = total[1] = kMinusZero;
#pragma unroll 1
  for (int begin = 0; begin < split.pieces; begin += kInFlight) {
    float4 piece[kInFlight][2] = {};  // zeroed, because the compiler would spill otherwise
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (begin + i >= split.pieces) break;
      const int own = begin + i - first_own;
      const bool is_own = own >= 0 && own < own_pieces;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        piece[i][half] =
            is_own ? load_shared_sums(own_sums + own * own_piece_bytes + half * own_half_bytes)
                   : load_through_l2(sums + (begin + i) * kPieceFloats +
                                     half * (Stage::kN8Tiles * 128));
      }
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (begin + i >= split.pieces) break;
      const bool ends_block = ((begin + i + 1) & ((1 << block_pieces_log2) - 1)) == 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        add(block[half], piece[i][half]);
        if (!ends_block) continue;
        add(total[half], block[half]);
        block[half] = kMinusZero;
      }
    }
  }
}

#endif

}  // namespace forerun::cuda
