// Where the attention kernel's (attention_rows_cuda.cu) keys and values come from: tiles of the
// prefix that travel into shared memory ahead of use, and what lies past the prefix. Device code;
// included by the kernel alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention_args_cuda.h"
#include "kernels/attention/attention_row_cuda.h"
#include "kernels/attention/kv_layout_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Tiles of the prefix on their way into shared memory, in the order in which the block works on
// them. Thread 0 requests; everybody waits.
template <int kDim, bool kFused>
struct TileLoader {
  uint32_t data, barriers;
  int work, tile;  // requested next
  int stage = 0;
  AttentionItemCuda item;

  // Whole chunks of 16, unless the rest of one comes from shared memory too.
  __device__ __forceinline__ static bool shares(const AttentionItemCuda& item, int tile) {
    return item.prefix_tokens >= tile * kTilePositions + (kFused ? 1 : kChunk);
  }
  // Moves on to a tile that is to be loaded; false if there is none.
  __device__ __forceinline__ bool find(const AttentionArgs& args, int num_items, int heads) {
    while (work < num_items * heads) {
      while (tile < item.end_tile) {
        if (shares(item, tile)) return true;
        ++tile;
      }
      work += gridDim.x;
      if (work < num_items * heads) load_item(args, heads);
    }
    return false;
  }
  __device__ __forceinline__ void load_item(const AttentionArgs& args, int heads) {
    item = step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    tile = begin_tile(args, item);
  }
  // What lies before the window of the lowest row is left out.
  __device__ __forceinline__ static int begin_tile(const AttentionArgs& args,
                                                   const AttentionItemCuda& item) {
    const int seen = args.window > 0 ? max(item.lowest - args.window + 1, 0) / kTilePositions : 0;
    return max(item.first_tile, seen);
  }
  // Nothing that is read of it is written by this step.
  __device__ __forceinline__ bool is_stable() const {
    return kFused || (tile + 1) * kTilePositions <= item.stable_tokens;
  }
  __device__ __forceinline__ void request(const AttentionArgs& args, int heads) {
    const auto* tables = step_data<int32_t>(args.step, args.step->tables_offset);
    const int block = tables[item.table + tile];
    const int kv_head = work % heads / args.parts;
    const std::byte* const keys =
        args.kv + block * args.block_stride + int64_t{kv_head} * tile_bytes(kDim);
    const uint32_t barrier = barriers + stage * 8;
    const uint32_t target = data + stage * 2 * tile_bytes(kDim);
    barrier_arrive_expecting(barrier, 2 * tile_bytes(kDim));
    bulk_copy(target, keys, tile_bytes(kDim), barrier);
    bulk_copy(target + tile_bytes(kDim), keys + int64_t{args.kv_heads} * tile_bytes(kDim),
              tile_bytes(kDim), barrier);
    stage = stage + 1 == args.stages ? 0 : stage + 1;
    ++tile;
  }
};

// Where the keys and values of positions past the prefix come from. Each gives the scores of a
// chunk that is not all prefix, and adds its values.

// From the cache in global memory, a chunk's values by way of the warp's own shared memory.
template <int kDim>
struct GatheredRows {
  const RowTask<kDim>& task;
  const std::byte* keys;
  int64_t block_stride, value_offset;
  uint32_t own_values;
  int begin, lane;  // first position of the tile

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
      const bool seen = position <= task.row.position;
      const int slot = seen ? task.slot(position) : 0;
      copy_16_async(own_values + key * kPanelRowBytes + kv_piece(piece, key, kChunk),
                    stored(slot) + value_offset + kv_piece(piece, slot), seen);
    }
    copies_commit();
  }
  // Values of the first chunk travel while scores are computed.
  __device__ __forceinline__ void prepare(int first_chunk) const { request_values(first_chunk); }
  __device__ __forceinline__ void score(int chunk, uint32_t /*tile*/, float (&score)[4]) const {
    const std::byte* key_rows[2];
    int slots[2];
    bool seen[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = begin + chunk * kChunk + (lane >> 2) + half * 8;
      seen[half] = position <= task.row.position;
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
  __device__ __forceinline__ void add(int chunk, int first_chunk, uint32_t /*tile*/,
                                      const float (&weight)[4], RowSum<kDim>& sum) const {
    if (chunk > first_chunk) request_values(chunk);
    copies_wait();
    __syncwarp();
    const int key = value_key(lane);
    add_chunk<kDim>(sum, weight, own_values + key * kPanelRowBytes, key, kChunk, lane);
    __syncwarp();  // before the next chunk overwrites
  }
};

// From the block's shared memory: the tile, or the extras by the row's list (kFused).
template <int kDim>
struct StagedRows {
  const RowTask<kDim>& task;
  uint32_t extras;  // keys, then values
  uint32_t list;    // of the row, a byte a position from its boundary on
  int begin, lane;

  // Shared address of a position's row, which is row *slot of its panel. Positions that the row
  // does not see give any row: their scores are masked.
  __device__ __forceinline__ uint32_t row(int position, uint32_t tile, uint32_t of_extras,
                                          int* slot) const {
    if (position < task.row.boundary) {
      *slot = position - begin;
      return tile + *slot * kPanelRowBytes;
    }
    *slot =
        position <= task.row.position ? load_shared_byte(list + position - task.row.boundary) : 0;
    return of_extras + *slot * kPanelRowBytes;
  }
  __device__ __forceinline__ void prepare(int /*first_chunk*/) const {}
  __device__ __forceinline__ void score(int chunk, uint32_t tile, float (&score)[4]) const {
    int slot;
    const uint32_t keys = row(begin + chunk * kChunk + score_key(lane), tile, extras, &slot);
    score_chunk<kDim>(
        task,
        [&](int s) { return load_matrices(keys + kv_piece(s * 2 + score_piece(lane), slot)); },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int /*first_chunk*/, uint32_t tile,
                                      const float (&weight)[4], RowSum<kDim>& sum) const {
    int slot;
    const uint32_t values = row(begin + chunk * kChunk + value_key(lane), tile + tile_bytes(kDim),
                                extras + kMostExtras * kDim * 2, &slot);
    add_chunk<kDim>(sum, weight, values, slot, kMostExtras, lane);
  }
};

#endif

}  // namespace forerun::cuda
