// Prefix items of attention over shared prefixes: code of both kernel variants
// (attention/cuda/shared.cu). Device code; only that kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/shared_load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A lane's two columns, g and g + 8 of its warp's 16.
struct PrefixColumns {
  bool is_there[2];
  int own_head[2];  // index of the head in the part
  int last_visible[2];
  int first_partial[2];  // partial result of the row's first span

  // The warpgroup's rows are the item's `num_rows` rows behind the first `skipped`.
  __device__ __forceinline__ PrefixColumns(const AttentionArgs& args, const PrefixWork& work,
                                           int skipped, int num_rows) {
    const auto* const rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
    const int part_heads = min(args.group_heads - work.head % args.parts * 8, 8);
    const int first = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = args.by_row_columns.divide(first + 8 * i);
      own_head[i] = first + 8 * i - row * args.row_columns;
      is_there[i] = row < num_rows && own_head[i] < part_heads;
      const AttentionRowCuda& step_row = rows[work.first_row + (is_there[i] ? skipped + row : 0)];
      last_visible[i] = step_row.last_visible;
      first_partial[i] = step_row.first_partial;
    }
  }
  // Returns the number of the partial result of column i. It is computed when needed, and the loads
  // before it are in flight meanwhile.
  __device__ __forceinline__ int partial(const PrefixWork& work, int i) const {
    return first_partial[i] + span_of(last_visible[i], work.first_tile);
  }
  __device__ __forceinline__ void hide(const AttentionArgs& args, float (&score)[8][4], int tile,
                                       int lane) const {
    if (args.window == 0) return;
    hide_before_window(score, tile * kTilePositions, lane,
                       [&](int i) { return last_visible[i >> 1] - args.window + 1; });
  }
};

// Copies the queries of a warpgroup's rows into its shared memory, once the previous kernel has
// ended.
template <int kDim, bool kFused>
__device__ __forceinline__ void stage_prefix_queries(const AttentionArgs& args,
                                                     const PrefixWork& work, int skipped,
                                                     int num_rows, uint32_t queries, bool& waited) {
  const int part = work.head % args.parts;
  const int first_head = work.head / args.parts * args.group_heads + part * 8;
  const int barrier = 2 + static_cast<int>(threadIdx.x) / 128;
  ColumnQueries<kDim, kFused> columns;
  columns.plan(args, work.first_row + skipped, num_rows, min(args.group_heads - part * 8, 8),
               [&](int row) {
                 return kFused ? args.qkv + row * args.qkv_stride + first_head * kDim
                               : args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
               });
  if (!waited) wait_for_previous_kernel();
  waited = true;
  named_barrier(barrier, 128);  // no thread reads the previous queries any more
  columns.stage(queries);
  named_barrier(barrier, 128);
}

// Announces to the item's query tiles that the warpgroup has written its share of the partial
// results, or the last of them.
__device__ __forceinline__ void announce_prefix(const AttentionArgs& args, const PrefixWork& work,
                                                int arrivals) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  named_barrier(2 + static_cast<int>(threadIdx.x) / 128, 128);
  if (thread > (work.num_rows - 1) / kQueryTileRows) return;
  arrive_release(
      args.arrivals + (work.query_tile + thread) * (args.kv_heads * args.parts) + work.head,
      static_cast<uint32_t>(arrivals));
}

#endif

}  // namespace forerun::cuda
