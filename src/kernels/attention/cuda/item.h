// Attention of an item with one warp per row, which takes the row's visible tiles in ascending
// order (attention/cuda/rows.cu, attention/cuda/shared.cu). Device code; only the attention kernels
// include it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Adds one tile of 64 positions to a row's span. `shared` has the tile's keys and values within the
// prefix, if the item shares it; `rest` is the source of the others or, without kShares, of all.
template <int kDim, bool kShares = true, class Rest>
__device__ __forceinline__ void attend_tile(const AttentionArgs& args, const RowTask<kDim>& task,
                                            int tile, const SharedTile& shared, const Rest& rest,
                                            int lane, RowSum<kDim>& sum) {
  const int begin = tile * kTilePositions;
  const int g = lane >> 2;
  const int chunks = min((task.row.last_visible - begin) / kChunk + 1, kChunks);
  const int shared_chunks = kShares ? min(max(task.row.boundary - begin, 0) / kChunk, chunks) : 0;
  if (shared_chunks < chunks) rest.prepare(shared_chunks);

  float score[kChunks][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const int key = c * kChunk + score_key(lane);
      const uint32_t row = shared.keys + key * kPanelRowBytes;
      score_chunk<kDim>(
          task, [&](int s) { return ldmatrix_x4(row + kv_piece(s * 2 + score_piece(lane), key)); },
          score[c]);
    } else if (c < chunks) {
      rest.score(c, shared.keys, score[c]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[c][i] = kMinusInfinity;
    }
  }

  // Masks the row's invisible positions.
  const int first_seen = args.window > 0 ? task.row.last_visible - args.window + 1 : 0;
  float max_score[2] = {kMinusInfinity, kMinusInfinity};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = begin + c * kChunk + g + (i >> 1) * 8;
      score[c][i] = position <= task.row.last_visible && position >= first_seen
                        ? __fmul_rn(score[c][i], args.scale_log2)
                        : kMinusInfinity;
      max_score[i & 1] = fmaxf(max_score[i & 1], score[c][i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
      max_score[i] = fmaxf(max_score[i], __shfl_xor_sync(~0u, max_score[i], lanes));
    }
    // A row's tile always has a visible key, so `max_score` is finite.
    max_score[i] = fmaxf(max_score[i], sum.max_score[i]);
    const float rescale = exp2_approx(sum.max_score[i] - max_score[i]);
    sum.max_score[i] = max_score[i];
    float exp_sum = 0.0f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& s = score[c][half * 2 + i];
        s = exp2_approx(s - max_score[i]);
        exp_sum = __fadd_rn(exp_sum, s);
      }
    }
    sum.exp_sum[i] = __fmaf_rn(sum.exp_sum[i], rescale, exp_sum);
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
      sum.out[m][i] *= rescale;
      sum.out[m][i + 2] *= rescale;
    }
  }

#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (c < shared_chunks) {
      const int key = c * kChunk + value_key(lane);
      add_chunk<kDim>(sum, score[c], shared.values + key * kPanelRowBytes, key, kTilePositions,
                      lane);
    } else if (c < chunks) {
      rest.add(c, shared_chunks, shared.values, score[c], sum);
    }
  }
}

// Attends to an item. All warps of the block call it; warp w takes row w of the item. `own` is the
// block's shared memory for gathered values or extras; `lists` has kMaxExtras bytes per warp.
// `tiles.wait_next()` returns the next tile that the item shares, and `tiles.release()` frees it.
// `ended(task, tile, span)` is called at the end of a span, with its sums reduced over the lanes.
template <int kDim, bool kFused, class Tiles, class Ended>
__device__ __forceinline__ void attend_item(const AttentionArgs& args,
                                            const AttentionItemCuda& item, int head, uint32_t own,
                                            uint32_t lists, Tiles& tiles, const Ended& ended) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const bool has_row = warp < item.num_rows;
  [[maybe_unused]] const uint32_t list = lists + warp * kMaxExtras;
  [[maybe_unused]] const std::byte* const keys =
      args.kv + int64_t{head / args.parts} * tile_bytes(kDim);
  RowTask<kDim> task;
  RowSum<kDim> span;
  int first_tile = 0;
  if (has_row) {
    load_row<kDim>(args, item.first_row + warp, task);
    load_queries<kDim, kFused>(args, item.first_row + warp, head, lane, task);
    const int first_seen = args.window > 0 ? max(task.row.last_visible - args.window + 1, 0) : 0;
    first_tile = first_seen / kTilePositions;
  }
  if constexpr (kFused) {
    meet();  // no warp reads the previous item's extras any more
    if (item.num_extras > 0) {
      if (has_row) {
        for (int i = lane; i <= task.row.last_visible - task.row.boundary; i += 32) {
          store_shared_byte(list + i, task.ancestors[i]);
        }
      }
      stage_extras<kDim>(args, item, head / args.parts, own, warp, lane);
      meet();
    }
  }
  span.clear();
  for (int tile = first_tile_of(args, item); tile < item.end_tile; ++tile) {
    const bool shares = shares_tile<kFused>(item, tile);
    SharedTile shared = {};
    if (shares) shared = tiles.wait_next();
    if (has_row && tile >= first_tile && tile * kTilePositions <= task.row.last_visible) {
      if constexpr (kFused) {
        const StagedRows<kDim> rest{.task = task,
                                    .extras = own,
                                    .list = list,
                                    .begin = tile * kTilePositions,
                                    .lane = lane};
        attend_tile<kDim>(args, task, tile, shared, rest, lane, span);
      } else {
        const GatheredRows<kDim> rest{.task = task,
                                      .keys = keys,
                                      .block_stride = args.block_stride,
                                      .value_offset = int64_t{args.kv_heads} * tile_bytes(kDim),
                                      .own_values = own + warp * chunk_bytes(kDim),
                                      .begin = tile * kTilePositions,
                                      .lane = lane};
        attend_tile<kDim>(args, task, tile, shared, rest, lane, span);
      }
      if (ends_span(task.row.last_visible, tile)) {
        span.reduce_lanes();
        ended(task, tile, span);
        span.clear();
      }
    }
    if (shares) tiles.release();
  }
}

#endif

}  // namespace forerun::cuda
