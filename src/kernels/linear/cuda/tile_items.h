// The sums and outputs of a tile that belong to a thread of the linear kernel for many rows
// (linear/cuda/tiles.cu). Device code; only the kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/item.h"
#include "kernels/linear/cuda/tile_frame.h"
#include "kernels/linear/cuda/tile_plan.h"
#include "kernels/linear/cuda/tile_ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Returns the offset in bytes of one lane's sums of 8 rows of half a tile.
template <class Stage>
__device__ __forceinline__ uint32_t sum_offset(int tile, int half, int n, int lane) {
  return (((tile * 2 + half) * Stage::kN8Tiles + n) * 32 + lane) * 16;
}

// The position of a consumer thread in a block's tile. opaque() makes the compiler compute derived
// values again where they are used; they would otherwise occupy registers during the main loop.
struct TilePlace {
  int lane, warp;
  __device__ __forceinline__ TilePlace() {
    const uint32_t thread = opaque(threadIdx.x);
    lane = static_cast<int>(thread % 32);
    warp = static_cast<int>(thread / 32);
  }
  __device__ __forceinline__ int tile() const { return warp >> 1; }
  __device__ __forceinline__ int half() const { return warp & 1; }
};

// An iterator over a lane's items of a block's share of a tile. A warp takes 8 rows of 32 outputs
// at a time. For whole warps.
template <class Stage>
class TileItems {
 public:
  // `tiles` is the number of the layer's tiles.
  __device__ __forceinline__ TileItems(const TileSplit& split, const TileWork& work, int tiles,
                                       const TilePlace& place)
      : work_(work),
        tiles_(tiles),
        lane_(place.lane),
        part_(place.warp),
        parts_(kBlockTiles * (Stage::kN8Tiles >> split.count_log2)),
        count_log2_(split.count_log2) {
    skip();
  }
  __device__ __forceinline__ bool has() const { return part_ < parts_; }
  __device__ __forceinline__ void advance() {
    part_ += kConsumerWarps;
    skip();
  }
  // Return the index of the tile in the block's tiles, and the index of the block of 8 rows in the
  // tile.
  __device__ __forceinline__ int tile() const { return part_ & (kBlockTiles - 1); }
  __device__ __forceinline__ int n8_tile() const {
    return ((part_ >> kBlockTilesLog2) << count_log2_) + work_.split;
  }
  __device__ __forceinline__ OutputItem item() const {
    OutputItem item = {};
    item.tile = work_.first_tile + tile();
    item.lane = lane_;
    item.row = work_.first_row + n8_tile() * 8 + (lane_ & 3) * 2;
    return item;
  }

 private:
  // Skips tiles and rows past the end.
  __device__ __forceinline__ void skip() {
    while (has() && (work_.first_tile + tile() >= tiles_ || n8_tile() * 8 >= work_.rows)) {
      part_ += kConsumerWarps;
    }
  }

  TileWork work_;
  int tiles_, lane_, part_, parts_, count_log2_;
};

#endif

}  // namespace forerun::cuda
