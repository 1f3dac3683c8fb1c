// The columns of a unit (one query head of one row each) in kPersistent
// (attention/cuda/persistent.cu): their visible positions, the sums of their spans, and their
// totals, partial results and outputs. Device code; only that kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/persistent_load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The data of a lane's two columns, g and g + 8 of its warp's 16, that stay in registers. Other
// data are computed again at the end of a span or a run.
struct PersistentColumns {
  int last_visible[2];  // -1 if there is no such column
  int highest;          // largest last_visible of all rows

  __device__ __forceinline__ PersistentColumns(const AttentionArgs& args, const RunWork& work) {
    const int lane = threadIdx.x % 32;
    const int part_heads = work.part_heads(args);
    highest = -1;
    for (int i = lane; i < work.item.num_rows; i += 32) {
      highest = max(highest, rows(args)[work.item.first_row + i].last_visible);
    }
    highest = __reduce_max_sync(~0u, highest);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int of_item = args.by_row_columns.divide(column(i));
      const bool is_there = of_item < work.item.num_rows && own_head(args, i) < part_heads;
      last_visible[i] = is_there ? rows(args)[work.item.first_row + of_item].last_visible : -1;
    }
  }
  __device__ __forceinline__ static const AttentionRowCuda* rows(const AttentionArgs& args) {
    return step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  }
  __device__ __forceinline__ static int column(int i) {
    return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 +
           8 * i;
  }
  // Index of a column's query head within the part.
  __device__ __forceinline__ static int own_head(const AttentionArgs& args, int i) {
    return column(i) - args.by_row_columns.divide(column(i)) * args.row_columns;
  }
  // Row of the step that a column belongs to. This function and the next one need an existing
  // column.
  __device__ __forceinline__ static int row(const AttentionArgs& args, const RunWork& work, int i) {
    return work.item.first_row + args.by_row_columns.divide(column(i));
  }
  __device__ __forceinline__ static int first_partial(const AttentionArgs& args,
                                                      const RunWork& work, int i) {
    return rows(args)[row(args, work, i)].first_partial;
  }
  // Returns the number of the partial result with the total of a unit's first `tiles` tiles.
  __device__ __forceinline__ int total_partial(const AttentionArgs& args, const RunWork& work,
                                               int i, int tiles) const {
    return first_partial(args, work, i) + span_of_total(last_visible[i], tiles);
  }
  // Sets a tile's scores of invisible positions to kMinusInfinity, and scales the others.
  __device__ __forceinline__ void mask(const AttentionArgs& args, const RunWork& work, int begin,
                                       float (&score)[8][4]) const {
    if (begin + kTilePositions <= work.item.lowest + 1 &&
        (args.window == 0 || begin > highest - args.window)) {
      scale_scores(score, args.scale_log2);
      return;
    }
    mask_scores(score, last_visible, args.window, args.scale_log2, begin);
  }
};

template <int kDim>
__device__ __forceinline__ void store_column(const AttentionArgs& args,
                                             const ColumnSums<kDim>& sums, int half, int partial,
                                             int head, int own_head) {
  const int lane = threadIdx.x % 32;
  store_partial_values<kDim>(args, sums.out, half, partial, head, own_head, lane);
  store_partial_softmax<kDim>(args, sums, half, partial, head, own_head, lane);
}

// Loads the data of store_column().
template <int kDim>
__device__ __forceinline__ void load_column(const AttentionArgs& args, ColumnSums<kDim>& sums,
                                            int half, int partial, int head, int own_head) {
  const float* const from = partial_at(args, partial, head);
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const float* const at = from + own_head * kDim + m * 16 + (threadIdx.x & 3) * 4;
    const float2 low = load_pair_through_l2(at);
    const float2 high = load_pair_through_l2(at + 2);
    sums.out[2 * m][2 * half] = low.x;
    sums.out[2 * m][2 * half + 1] = low.y;
    sums.out[2 * m + 1][2 * half] = high.x;
    sums.out[2 * m + 1][2 * half + 1] = high.y;
  }
  const float2 softmax = load_pair_through_l2(from + args.row_columns * kDim + own_head * 2);
  sums.max_score[half] = softmax.x;
  sums.exp_sum[half][0] = softmax.y;
}

// Merges a column's finished span, whose sums are reduced over the lanes, into its total.
template <int kDim>
__device__ __forceinline__ void merge_column(ColumnSums<kDim>& total, ColumnSums<kDim>& span,
                                             int half) {
  const float2 factors = merge_factors(total.max_score[half], span.max_score[half]);
  total.max_score[half] = fmaxf(total.max_score[half], span.max_score[half]);
  total.exp_sum[half][0] = merged(total.exp_sum[half][0], span.exp_sum[half][0], factors);
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float& out = total.out[j][2 * half + odd];
      out = merged(out, span.out[j][2 * half + odd], factors);
    }
  }
}
template <int kDim>
__device__ __forceinline__ void clear_column(ColumnSums<kDim>& sums, int half) {
  sums.max_score[half] = kMinusInfinity;
  sums.exp_sum[half][0] = sums.exp_sum[half][1] = 0.0f;
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) sums.out[j][2 * half] = sums.out[j][2 * half + 1] = 0.0f;
}

template <int kDim>
__device__ __forceinline__ void store_output(const AttentionArgs& args, const RunWork& work,
                                             const PersistentColumns& columns,
                                             const ColumnSums<kDim>& total) {
  const int first_head = work.first_head(args);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (columns.last_visible[i] < 0) continue;
    store_column(total, i, args.attended_format, args.head_dim,
                 args.attended + columns.row(args, work, i) * args.attended_stride +
                     (first_head + columns.own_head(args, i)) * args.head_dim);
  }
}

#endif

}  // namespace forerun::cuda
