// Tiles of positions that a row finds through its own ancestor list (attention/cuda/persistent.cu),
// with one warp per row. Warps do not synchronize: while one waits for its list, and then for the
// keys and values in it, the others work. Device code; only that kernel includes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/item.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A source that gathers a tile's keys and values into the warp's shared memory, from any slots: all
// keys at once, values a chunk ahead of use. It is the `rest` of attend_tile().
template <int kDim>
struct OwnTile {
  static constexpr int kBytes = tile_bytes(kDim) + 2 * chunk_bytes(kDim);
  const RowTask<kDim>& task;
  const std::byte* keys;
  int64_t block_stride, value_offset;
  uint32_t own;  // kBytes of shared memory
  int begin, lane;

  __device__ __forceinline__ int chunks() const {
    return min((task.row.last_visible - begin) / kChunk + 1, kChunks);
  }
  // Copies a chunk's keys or values, which lie `offset` bytes after the keys, to the rows from
  // `first_row` on of panels of `rows` rows.
  __device__ __forceinline__ void request(int chunk, uint32_t to, int first_row, int rows,
                                          int64_t offset) const {
    constexpr int kPieces = kDim / 8;
#pragma unroll
    for (int i = 0; i < kChunk * kPieces / 32; ++i) {
      const int key = (i * 32 + lane) / kPieces;
      const int piece = (i * 32 + lane) % kPieces;
      const int position = begin + chunk * kChunk + key;
      const bool seen = position <= task.row.last_visible;
      const int slot = seen ? task.slot(position) : 0;
      const std::byte* const stored = keys + slot / kTilePositions * block_stride +
                                      slot % kTilePositions * kPanelRowBytes + offset;
      copy_16_async(
          to + (first_row + key) * kPanelRowBytes + kv_piece(piece, first_row + key, rows),
          stored + kv_piece(piece, slot), seen);
    }
  }
  __device__ __forceinline__ uint32_t values(int chunk) const {
    return own + tile_bytes(kDim) + chunk % 2 * chunk_bytes(kDim);
  }
  __device__ __forceinline__ void request_values(int chunk) const {
    if (chunk < chunks()) request(chunk, values(chunk), 0, kChunk, value_offset);
    copies_commit();
  }
  __device__ __forceinline__ void prepare(int /*first_chunk*/) const {
#pragma unroll 1
    for (int c = 0; c < chunks(); ++c) request(c, own, c * kChunk, kTilePositions, 0);
    copies_commit();
    request_values(0);
    request_values(1);
    copies_wait_for_all_but<2>();
    __syncwarp();
  }
  __device__ __forceinline__ void score(int chunk, uint32_t /*keys*/, float (&score)[4]) const {
    const int key = chunk * kChunk + score_key(lane);
    const uint32_t row = own + key * kPanelRowBytes;
    score_chunk<kDim>(
        task, [&](int s) { return ldmatrix_x4(row + kv_piece(s * 2 + score_piece(lane), key)); },
        score);
  }
  __device__ __forceinline__ void add(int chunk, int /*first_chunk*/, uint32_t /*values*/,
                                      const float (&probs)[4], RowSum<kDim>& sum) const {
    copies_wait_for_all_but<1>();
    __syncwarp();
    const int key = value_key(lane);
    add_chunk<kDim>(sum, probs, values(chunk) + key * kPanelRowBytes, key, kChunk, lane);
    __syncwarp();  // before the next chunk but one overwrites these values
    request_values(chunk + 2);
  }
};

// Loads a unit's total for one row, as a worker has stored it.
template <int kDim>
__device__ __forceinline__ void load_total(const AttentionArgs& args, RowSum<kDim>& total,
                                           int partial, int head, int lane) {
  const float* const from = partial_at(args, partial, head);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int own_head = 2 * (lane & 3) + i;
    if (own_head >= args.row_columns) continue;
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
      const float4 v = load_through_l2(from + own_head * kDim + m * 16 + (lane >> 3) * 4);
      total.out[m][i] = (lane & 4) != 0 ? v.y : v.x;
      total.out[m][2 + i] = (lane & 4) != 0 ? v.w : v.z;
    }
    const float2 softmax = load_pair_through_l2(from + args.row_columns * kDim + own_head * 2);
    total.max_score[i] = softmax.x;
    total.exp_sum[i] = softmax.y;
  }
}

// Processes all of the step's `items`. A row of a unit that is not split continues from the unit's
// total and writes the output; a row of a split unit stores partial results. `shared` is the
// block's shared memory, kWarps times OwnTile::kBytes.
template <int kDim>
__device__ __forceinline__ void attend_own_tiles(const AttentionArgs& args, uint32_t shared) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int heads = args.kv_heads * args.parts;
  const int count = args.step->num_items * heads;
  const auto* const items = step_data<AttentionItemCuda>(args.step, args.step->items_offset);
  for (int work_idx = blockIdx.x; work_idx < count; work_idx += gridDim.x) {
    const AttentionItemCuda item = items[work_idx / heads];
    if (warp >= item.num_rows) continue;
    const int head = work_idx % heads;
    RowTask<kDim> task;
    load_row<kDim>(args, item.first_row + warp, task);
    load_queries<kDim, false>(args, item.first_row + warp, head, lane, task);
    const int end_tile = task.row.last_visible / kTilePositions + 1;
    if (item.is_split != 0 && end_tile <= item.first_tile)
      continue;  // the row has no tiles of its own
    const int first_seen = args.window > 0 ? max(task.row.last_visible - args.window + 1, 0) : 0;
    const bool splits = item.is_split != 0;
    uint32_t* const arrivals = args.arrivals + item.query_tile * heads + head;
    RowSum<kDim> span, total;
    span.clear();
    total.clear();
    bool waits = !splits && item.first_tile > 0;
    const auto take_up = [&] {
      if (!wait_acquire(arrivals, kTotalReady)) *args.failed = 1;
      __syncwarp();
      load_total(args, total,
                 task.row.first_partial + span_of_total(task.row.last_visible, item.first_tile),
                 head, lane);
      waits = false;
    };
#pragma unroll 1
    for (int tile = max(item.first_tile, first_seen / kTilePositions); tile < end_tile; ++tile) {
      const OwnTile<kDim> rest{.task = task,
                               .keys = args.kv + int64_t{head / args.parts} * tile_bytes(kDim),
                               .block_stride = args.block_stride,
                               .value_offset = int64_t{args.kv_heads} * tile_bytes(kDim),
                               .own = shared + warp * OwnTile<kDim>::kBytes,
                               .begin = tile * kTilePositions,
                               .lane = lane};
      attend_tile<kDim, /*kShares=*/false>(args, task, tile, {}, rest, lane, span);
      if (!ends_span(task.row.last_visible, tile)) continue;
      span.reduce_lanes();
      if (splits) {
        store_partial<kDim>(
            args, span, task.row.first_partial + span_of(task.row.last_visible, tile), head, lane);
      } else {
        if (waits) take_up();
        merge<kDim>(total, span);
      }
      span.clear();
    }
    if (splits) {
      __syncwarp();
      if (lane == 0) arrive_release(arrivals, 1);
      continue;
    }
    if (waits) take_up();
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
      store_attended(args, item.first_row + warp, head, m * 16, total.out[m], total.exp_sum, lane);
    }
  }
}

#endif

}  // namespace forerun::cuda
