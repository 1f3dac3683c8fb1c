// The spans of an item's tiles. Device code; only the attention kernels include it.
#pragma once

#include "kernels/attention/cuda/plan.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// The tiles of each span of an item. All rows have the same spans: they end in one tile, or their
// spans are single tiles, so that they differ only in the number of visible spans.
struct ItemSpans {
  int shift, singles, full, first, end, first_tile;

  __device__ __forceinline__ ItemSpans(const AttentionItemCuda& item, int window) {
    const int position = (item.end_tile - 1) * kTilePositions;
    shift = span_shift(position);
    singles = first_single_tile(position);
    full = (singles + (1 << shift) - 1) >> shift;
    first_tile = window > 0 ? max(item.lowest - window + 1, 0) / kTilePositions : 0;
    first = span_of(position, first_tile);
    end = num_spans(position);
  }
  __device__ __forceinline__ int begin_tile(int span) const {
    return max(span < full ? span << shift : singles + span - full, first_tile);
  }
  __device__ __forceinline__ int end_tile(int span) const {
    return span < full ? min(singles, (span + 1) << shift) : singles + span - full + 1;
  }
};

}  // namespace forerun::cuda
