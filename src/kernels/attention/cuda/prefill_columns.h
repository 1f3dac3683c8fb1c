// A warpgroup's columns (one query head of one row each) for rows that attend only to their prefix,
// and the step that adds a tile to their span, for the kernels of such rows
// (attention/cuda/prefill.cu, attention/cuda/prefill_cluster.cu). Device code; only these kernels
// include it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/prefill_load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A lane's two columns, g and g + 8 of its warp's 16. A missing column has no visible position: its
// last_visible is -1.
struct PrefillColumns {
  int last_visible[2], head[2];
  int highest = -1;  // largest last_visible of the warpgroup's rows

  __device__ __forceinline__ PrefillColumns(const AttentionArgs& args, const AttentionRowCuda* rows,
                                            int first_row, int num_rows, int part_heads,
                                            int first_column) {
    for (int row = threadIdx.x % 32; row < num_rows; row += 32) {
      highest = max(highest, rows[first_row + row].last_visible);
    }
    highest = __reduce_max_sync(~0u, highest);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first_column + 8 * i;
      const int row = args.by_row_columns.divide(column);
      head[i] = column - row * args.row_columns;
      last_visible[i] =
          row < num_rows && head[i] < part_heads ? rows[first_row + row].last_visible : -1;
    }
  }
};

// Adds the tile that begins at position `begin` to the span of a warpgroup's columns. `queries` and
// `keys` lie in shared memory, with the tile's values right after its keys. `barrier` is the number
// of a named barrier of the warpgroup.
template <int kDim>
__device__ __forceinline__ void attend_columns(const AttentionArgs& args,
                                               const PrefillColumns& columns,
                                               const AttentionItemCuda& item, int begin,
                                               uint32_t queries, uint32_t keys, int barrier,
                                               ColumnSums<kDim>& span) {
  float score[8][4];
  score_tile<kDim>(score, queries, kPanelBytes, keys);
  const bool all = begin + kTilePositions <= item.lowest + 1 &&
                   (args.window == 0 || begin > columns.highest - args.window);
  if (all) {
    scale_scores(score, args.scale_log2);
  } else {
    mask_scores(score, columns.last_visible, args.window, args.scale_log2, begin);
    const int written = item.prefix_tokens - begin;
    if (written < kTilePositions) {
      clear_values<kDim>(keys + tile_bytes(kDim), written, static_cast<int>(threadIdx.x) % 128);
      fence_async_proxy();
      named_barrier(barrier, 128);
    }
  }
  uint32_t probs[4][4];
  exponentiate<kDim>(score, span, probs);
  add_tile<kDim>(span, probs, keys + tile_bytes(kDim));
}

#endif

}  // namespace forerun::cuda
