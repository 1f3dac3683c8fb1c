// The attention of a decode cluster's warpgroup (attention/cuda/decode_cluster.cu) to a span that
// all rows of its item share: tile by tile, with columns (one query head of one row each) as the
// 64-row operand of wgmma. Device code; only that kernel includes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/decode_cluster_args.h"
#include "kernels/attention/cuda/decode_cluster_exchange.h"
#include "kernels/attention/cuda/decode_cluster_stage.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Requests a tile's keys and values into the warpgroup's stage. One thread calls it.
template <class Layout>
__device__ __forceinline__ void request_tile(const DecodeClusterArgs& args,
                                             const DecodeClusterWork& work, int tile,
                                             const DecodeClusterBarriers<Layout>& barriers,
                                             int warpgroup) {
  const std::byte* const keys = keys_of<Layout::kDim>(
      args, step_data<int32_t>(args.step, args.step->tables_offset)[work.item.table + tile],
      work.kv_head);
  const uint32_t barrier = barriers.of_tile(warpgroup);
  const uint32_t stage = barriers.shared + warpgroup * tile_bytes(Layout::kDim);
  barrier_arrive_expect_tx(barrier, 2 * tile_bytes(Layout::kDim));
  bulk_copy(stage + Layout::kKeys, keys, tile_bytes(Layout::kDim), barrier);
  bulk_copy(stage + Layout::kValues, keys + value_offset<Layout::kDim>(args),
            tile_bytes(Layout::kDim), barrier);
}

// Requests the first tile of the warpgroup's span or, if it has none but has the tail, the tail's.
template <class Layout>
__device__ __forceinline__ void request_first_tile(const DecodeClusterArgs& args,
                                                   const DecodeClusterWork& work,
                                                   const DecodeClusterBarriers<Layout>& barriers,
                                                   int warpgroup) {
  const DecodeClusterTask& task = work.task;
  const bool tail_is_own = task.tail_has_prefix && task.tail_warpgroup == warpgroup;
  if (threadIdx.x % 128 == 0 && (task.has_span || tail_is_own)) {
    request_tile<Layout>(args, work, task.has_span ? task.begin_tile : task.tail_tile, barriers,
                         warpgroup);
  }
}

// Requests the span's next tile, once the warpgroup is done with the one before it.
template <class Layout>
__device__ __forceinline__ void request_next_tile(const DecodeClusterArgs& args,
                                                  const DecodeClusterWork& work, int tile,
                                                  const DecodeClusterBarriers<Layout>& barriers,
                                                  int warpgroup) {
  if (tile >= work.task.end_tile) return;
  named_barrier(1 + warpgroup, 128);
  if (threadIdx.x % 128 == 0) request_tile<Layout>(args, work, tile, barriers, warpgroup);
}

// A warp's 16 columns of the item, from `first` on, with the span's running softmax.
template <class Layout>
struct SpanColumns {
  ColumnSums<Layout::kDim> sums;
  int first;
  bool are_there;  // wgmma takes all 64 columns in any case
  uint32_t stage;  // address of the warpgroup's tile

  __device__ __forceinline__ SpanColumns(const DecodeClusterArgs& args,
                                         const DecodeClusterTileInfo<Layout>& tile_info,
                                         const DecodeClusterThread& thread) {
    sums.clear();
    first = thread.warp % 4 * 16;
    are_there = first < tile_info.field(kNumRows) * args.row_columns;
    stage = tile_info.shared + thread.warpgroup * tile_bytes(Layout::kDim);
  }
  __device__ __forceinline__ void score(const DecodeClusterTileInfo<Layout>& tile_info,
                                        float (&score)[8][4]) const {
    score_tile<Layout::kDim>(score, tile_info.shared + Layout::kQueries, Layout::kColumnPanelBytes,
                             stage + Layout::kKeys);
  }
  // Turns a tile's scores into probabilities, for existing columns. `has_sums` says that a tile
  // came before it.
  __device__ __forceinline__ void exponentiate_tile(const DecodeClusterArgs& args,
                                                    const DecodeClusterTileInfo<Layout>& tile_info,
                                                    int tile, bool has_sums, int lane,
                                                    float (&score)[8][4], uint32_t (&probs)[4][4]) {
    if (!are_there) return;
    scale_scores(score, args.scale_log2);
    if (args.window > 0) {
      hide_before_window(score, tile * kTilePositions, lane, [&](int i) {
        const int row = args.by_row_columns.divide(first + lane / 4 + i / 2 * 8);
        return tile_info.last_visible(min(row, tile_info.field(kNumRows) - 1)) - args.window + 1;
      });
    }
    exponentiate<Layout::kDim>(score, sums, probs, has_sums);
  }
  __device__ __forceinline__ void add_values(const uint32_t (&probs)[4][4]) {
    add_tile<Layout::kDim>(sums, probs, stage + Layout::kValues);
  }
  // Sends the span's results to the blocks that merge them, once no warp of the cluster reads keys.
  __device__ __forceinline__ void send_results(const DecodeClusterArgs& args,
                                               const DecodeClusterTileInfo<Layout>& tile_info,
                                               const DecodeClusterBarriers<Layout>& barriers,
                                               const DecodeClusterThread& thread) {
    if (!are_there) return;
    sums.reduce_lanes();
    barriers.wait_for_released_keys();
    const int span =
        tile_info.field(kFirstSpan) + thread.rank + thread.warpgroup * kDecodeClusterBlocks;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first + thread.lane / 4 + 8 * i;
      const int row = args.by_row_columns.divide(column);
      if (row < tile_info.field(kNumRows) &&
          column - row * args.row_columns < tile_info.field(kPartHeads)) {
#pragma unroll
        for (int part = 0; part < Layout::kDim / 32; ++part) {
          send<Layout>(sums.out + 4 * part, i, part, tile_info.shared, span, column, thread.lane);
        }
        send_sums<Layout>(sums, i, tile_info.shared, span, column, thread.lane);
      }
    }
  }
};

#endif

}  // namespace forerun::cuda
