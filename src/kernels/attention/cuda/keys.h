// Sources of keys and values: tiles of the prefix, copied into shared memory ahead of use, and the
// keys and values past the prefix. Device code; only the attention kernels include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Synchronizes the block's kWarps warps.
__device__ __forceinline__ void meet() { named_barrier(1, kThreads); }

// Returns whether an item's rows read the tile's prefix from shared memory. They read whole chunks
// of 16 positions there or, with kSplitKvFusedRope, any number, since the other keys lie in shared
// memory too.
template <bool kFused>
__device__ __forceinline__ bool shares_tile(const AttentionItemCuda& item, int tile) {
  return item.prefix_tokens >= tile * kTilePositions + (kFused ? 1 : kChunk);
}
// Returns an item's first tile; tiles before the window of its lowest row are skipped.
template <class Args>
__device__ __forceinline__ int first_tile_of(const Args& args, const AttentionItemCuda& item) {
  const int seen = args.window > 0 ? max(item.lowest - args.window + 1, 0) / kTilePositions : 0;
  return max(item.first_tile, seen);
}
// Returns the address of a tile's keys in a cache block; its values lie value_offset() bytes after
// them.
template <int kDim, class Args>
__device__ __forceinline__ std::byte* keys_of(const Args& args, int block, int kv_head) {
  return args.kv + block * args.block_stride + int64_t{kv_head} * tile_bytes(kDim);
}
template <int kDim, class Args>
__device__ __forceinline__ int64_t value_offset(const Args& args) {
  return int64_t{args.kv_heads} * tile_bytes(kDim);
}

// A tile in shared memory.
struct SharedTile {
  uint32_t keys, values;
};

// A loader that copies tiles of the prefix into shared memory, in the order in which the block
// works on them. Thread 0 requests the copies; all threads wait for them.
template <int kDim, bool kFused>
class TileLoader {
 public:
  __device__ __forceinline__ TileLoader(const AttentionArgs& args, uint32_t data, uint32_t barriers)
      : args_(args), data_(data), barriers_(barriers) {}

  // `count` is the number of items times the parts of all key/value heads.
  __device__ __forceinline__ void begin(int count) {
    count_ = count;
    work_ = static_cast<int>(blockIdx.x);
    if (threadIdx.x == 0 && work_ < count_) load_item();
  }
  // Requests as many tiles as there are stages. Thread 0 calls it before the first wait_next().
  // With `stable_only`, it requests only tiles that this step does not write.
  __device__ __forceinline__ void fill(bool stable_only) {
    while (in_flight_ < args_.stages && find() &&
           (!stable_only || kFused || (tile_ + 1) * kTilePositions <= item_.stable_tokens)) {
      request();
      ++in_flight_;
    }
  }
  __device__ __forceinline__ SharedTile wait_next() const {
    barrier_wait(barriers_ + taken_ * 8, parity_);
    const uint32_t tile = data_ + taken_ * 2 * tile_bytes(kDim);
    return {tile, tile + tile_bytes(kDim)};
  }
  __device__ __forceinline__ void release() {
    meet();  // all warps are done with the stage
    if (threadIdx.x == 0 && find()) request();
    if (++taken_ == args_.stages) {
      taken_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  // Moves on to the next tile to load; returns false if there is none.
  __device__ __forceinline__ bool find() {
    while (work_ < count_) {
      while (tile_ < item_.end_tile) {
        if (shares_tile<kFused>(item_, tile_)) return true;
        ++tile_;
      }
      work_ += gridDim.x;
      if (work_ < count_) load_item();
    }
    return false;
  }
  __device__ __forceinline__ void load_item() {
    const int heads = args_.kv_heads * args_.parts;
    item_ = step_data<AttentionItemCuda>(args_.step, args_.step->items_offset)[work_ / heads];
    tile_ = first_tile_of(args_, item_);
  }
  __device__ __forceinline__ void request() {
    const auto* tables = step_data<int32_t>(args_.step, args_.step->tables_offset);
    const int head = work_ % (args_.kv_heads * args_.parts);
    const std::byte* const keys =
        keys_of<kDim>(args_, tables[item_.table + tile_], head / args_.parts);
    const uint32_t barrier = barriers_ + stage_ * 8;
    const uint32_t target = data_ + stage_ * 2 * tile_bytes(kDim);
    barrier_arrive_expect_tx(barrier, 2 * tile_bytes(kDim));
    bulk_copy(target, keys, tile_bytes(kDim), barrier);
    bulk_copy(target + tile_bytes(kDim), keys + value_offset<kDim>(args_), tile_bytes(kDim),
              barrier);
    stage_ = stage_ + 1 == args_.stages ? 0 : stage_ + 1;
    ++tile_;
  }

  const AttentionArgs& args_;
  uint32_t data_, barriers_;
  int count_ = 0;
  int work_ = 0, tile_ = 0, stage_ = 0;  // next tile to request
  int in_flight_ = 0;
  AttentionItemCuda item_;
  int taken_ = 0;  // next stage to wait for
  uint32_t parity_ = 0;
};

// Sources of the keys and values past the prefix. Each computes the scores of a chunk that is not
// all prefix, and adds its weighted values.

// A source that reads the cache in global memory; a chunk's values pass through the warp's own
// shared memory.
template <int kDim>
struct GatheredRows {
  const RowTask<kDim>& task;
  const std::byte* keys;
  int64_t block_stride, value_offset;
  uint32_t own_values;
  int begin, lane;  // begin is the first position of the tile

  __device__ __forceinline__ const std::byte* stored(int slot) const {
    return keys + slot / kTilePositions * block_stride + slot % kTilePositions * kPanelRowBytes;
  }
  __device__ __forceinline__ void request_values(int chunk) const {
    constexpr int kPieces = kDim / 8;
#pragma unroll
    for (int i = 0; i < kChunk * kPieces / 32; ++i) {
      const int key = (i * 32 + lane) / kPieces;
      const int piece = (i * 32 + lane) % kPieces;
      const int position = begin + chunk * kChunk + key;
      const bool seen = position <= task.row.last_visible;
      const int slot = seen ? task.slot(position) : 0;
      copy_16_async(own_values + key * kPanelRowBytes + kv_piece(piece, key, kChunk),
                    stored(slot) + value_offset + kv_piece(piece, slot), seen);
    }
    copies_commit();
  }
  // Copies the first chunk's values while scores are computed.
  __device__ __forceinline__ void prepare(int first_chunk) const { request_values(first_chunk); }
  __device__ __forceinline__ void score(int chunk, uint32_t /*keys*/, float (&score)[4]) const {
    const std::byte* key_rows[2];
    int slots[2];
    bool seen[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = begin + chunk * kChunk + (lane >> 2) + half * 8;
      seen[half] = position <= task.row.last_visible;
      slots[half] = seen[half] ? task.slot(position) : 0;
      key_rows[half] = stored(slots[half]);
    }
    score_chunk<kDim>(
        task,
        [&](int s) {
          const auto pair = [&](int half, int piece) {
            if (!seen[half]) return 0u;
            return *reinterpret_cast<const uint32_t*>(
                key_rows[half] + kv_piece(s * 2 + piece, slots[half]) + (lane & 3) * 4);
          };
          return make_uint4(pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1));
        },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int first_chunk, uint32_t /*values*/,
                                      const float (&probs)[4], RowSum<kDim>& sum) const {
    if (chunk > first_chunk) request_values(chunk);
    copies_wait();
    __syncwarp();
    const int key = value_key(lane);
    add_chunk<kDim>(sum, probs, own_values + key * kPanelRowBytes, key, kChunk, lane);
    __syncwarp();  // before the next chunk overwrites own_values
  }
};

// A source in shared memory (kSplitKvFusedRope): the tile or, through the row's list, the extras.
template <int kDim>
struct StagedRows {
  const RowTask<kDim>& task;
  uint32_t extras;  // keys, then values
  uint32_t list;  // the row's list: number of an extra, one byte per position from its boundary on
  int begin, lane;

  // Returns the shared-memory address of a position's key or value, and its row number in the panel
  // in *slot. `tile` and `of_extras` are the addresses of the tile and the extras. Invisible
  // positions yield an arbitrary row, since their scores are masked.
  __device__ __forceinline__ uint32_t row(int position, uint32_t tile, uint32_t of_extras,
                                          int* slot) const {
    if (position < task.row.boundary) {
      *slot = position - begin;
      return tile + *slot * kPanelRowBytes;
    }
    *slot = position <= task.row.last_visible
                ? load_shared_byte(list + position - task.row.boundary)
                : 0;
    return of_extras + *slot * kPanelRowBytes;
  }
  __device__ __forceinline__ void prepare(int /*first_chunk*/) const {}
  __device__ __forceinline__ void score(int chunk, uint32_t tile_keys, float (&score)[4]) const {
    int slot;
    const uint32_t keys = row(begin + chunk * kChunk + score_key(lane), tile_keys, extras, &slot);
    score_chunk<kDim>(
        task, [&](int s) { return ldmatrix_x4(keys + kv_piece(s * 2 + score_piece(lane), slot)); },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int /*first_chunk*/, uint32_t tile_values,
                                      const float (&probs)[4], RowSum<kDim>& sum) const {
    int slot;
    const uint32_t values = row(begin + chunk * kChunk + value_key(lane), tile_values,
                                extras + kMaxExtras * kDim * 2, &slot);
    add_chunk<kDim>(sum, probs, values, slot, kMaxExtras, lane);
  }
};

#endif

}  // namespace forerun::cuda
