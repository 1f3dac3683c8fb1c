// Arguments, shared-memory layout and division of work of kDecodeCluster and kWideDecodeCluster
// (attention/cuda/decode_cluster.cu). Only that file and its headers include this one.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/item_spans.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// Warps of a block: two warpgroups, each with a stage for one tile of keys and values.
constexpr int kDecodeClusterWarps = 8;
constexpr int kDecodeClusterThreads = kDecodeClusterWarps * 32;

// Fields of an item that a block keeps in shared memory for the time after the previous kernel's
// end: from then on a load from global memory, or of a register spilled there, is a trip to the L2.
enum DecodeClusterTileField : int {
  kFirstRow,
  kNumRows,
  kFirstHead,
  kPartHeads,
  kKvHead,
  kFirstSpan,
  kTailSpan,
  kTailBegin,  // first position of the tail
  kTailWarpgroup,
  kTailHasPrefix,
  kTailWarps,  // DecodeClusterTailShare::warps
  kTailShift,  // DecodeClusterTailShare::shift
  kNumTileFields
};

// Shared-memory layout of a block for items of kColumns columns, in byte offsets; operands of wgmma
// begin at multiples of 1,024.
template <int kDimensions, int kColumnCount>
struct DecodeClusterLayout {
  static constexpr int kDim = kDimensions;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kRows = kColumns == kNarrowDecodeClusterColumns
                                   ? kQueryTileRows
                                   : kWideDecodeClusterRows;  // the most rows of an item
  // A block merges an eighth of the dimensions of every column. It receives kDim / 8 sums per span
  // and column and, after all of these, the largest scores and the sums of exponentials.
  static constexpr int kSliceBytes = kDim / kDecodeClusterBlocks * 4;
  static constexpr int kPanels = kDim / 64;
  static constexpr int kColumnPanelBytes = kColumns * kPanelRowBytes;
  static constexpr int kExtraPanelBytes = kDecodeClusterExtras * kPanelRowBytes;
  static constexpr int kExtraBytes = kPanels * kExtraPanelBytes;

  static constexpr int kKeys = 0;  // [warpgroup] tile
  static constexpr int kExtraKeys = kKeys + 2 * tile_bytes(kDim);
  // wgmma reads 64 columns, even of items with fewer columns.
  static constexpr int kQueries = kExtraKeys + kExtraBytes;
  static constexpr int kQueriesEnd = kQueries + kPanels * kColumnPanelBytes;
  static_assert(kColumnPanelBytes % 1024 == 0);
  // Results of the cluster's blocks replace keys and queries once no warp reads these.
  static constexpr int kReceived = 0;  // [span][column][kSliceBytes]
  static constexpr int kReceivedSums = kReceived + kDecodeClusterSpans * kColumns * kSliceBytes;
  static constexpr int kReceivedEnd = kReceivedSums + kDecodeClusterSpans * kColumns * 8;
  static constexpr int kValues =  // [warpgroup] tile
      ((kReceivedEnd > kQueriesEnd ? kReceivedEnd : kQueriesEnd) + 1023) / 1024 * 1024;
  static constexpr int kExtraValues = kValues + 2 * tile_bytes(kDim);
  // Each row's list of the keys of its tail's positions: bytes [row][64], the number of one key
  // each.
  static constexpr int kLists = kExtraValues + kExtraBytes;
  static constexpr int kPositions = kLists + kRows * kTilePositions;  // [row]
  static constexpr int kTileFields = kPositions + kRows * 4;          // DecodeClusterTileField
  // Scores of the tail: f32 [column][key], the tile's keys, then the extras (TailScores).
  static constexpr int kScores = kTileFields + kNumTileFields * 4;
  static constexpr bool kPadsScores = kColumns == kNarrowDecodeClusterColumns;
  static constexpr int kColumnScoreBytes =
      (kTilePositions + kDecodeClusterExtras + (kPadsScores ? 8 : 0)) * 4;
  static_assert(kScores % 16 == 0);
  // Before the scores, their place holds the angles of the extras, the first of which are the rows.
  static constexpr int kAngles = kScores;
  static constexpr int kAnglesBytes = kDecodeClusterExtras * kDim * 4;
  static constexpr int kScoresBytes = kColumns * kColumnScoreBytes;
  // Barriers: two for the tiles, one for received results, one for the last read of keys and
  // queries.
  static constexpr int kBarriers =
      kScores + (kAnglesBytes > kScoresBytes ? kAnglesBytes : kScoresBytes);
  static constexpr int kReceivedBarrier = kBarriers + 16;
  static constexpr int kReleaseBarrier = kBarriers + 24;
  static constexpr int kBytes = kBarriers + 32;
  // Two blocks fit into an SM, which has 228 KB and reserves 1 KB for each block. Alternatively one
  // fits beside a linear layer's block of just over half (LinearFootprint): blocks of wide items
  // and of steps with 9 to 16 rows fit beside 115,840 bytes, those of narrow items, which steps of
  // up to 8 rows have too, beside half and 2 KB (smem_limits()).
  static_assert(kBytes <= (kColumns == kNarrowDecodeClusterColumns ? 113664 : 115584));
};

struct DecodeClusterArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* qkv;
  uint16_t* attended;
  ActivationFormat attended_format;
  std::byte* kv;
  int64_t qkv_stride, attended_stride, block_stride;
  int k_offset, v_offset, kv_heads, group_heads, parts, row_columns, window;
  Divisor by_row_columns, by_parts, by_heads;  // by_heads divides by the parts of all key/value
                                               // heads
  float scale_log2;
  bool early;
};

// The work of a warpgroup of block `rank` on an item: a span that all rows share, and the tail,
// which is the block's last span if rows differ there.
struct DecodeClusterTask {
  int begin_tile, end_tile;  // tiles of the warpgroup's span
  int first_span, tail_span, tail_tile, tail_warpgroup;
  uint32_t other_tiles;  // tiles of the other warpgroup's span
  bool has_span, has_tail, tail_has_prefix, tail_is_last;

  __device__ __forceinline__ DecodeClusterTask(const AttentionItemCuda& item, int window, int rank,
                                               int warpgroup) {
    const ItemSpans spans(item, window);
    first_span = spans.first;
    const auto is_shared = [&](int span) {
      return span < spans.end && spans.begin_tile(span) < item.shared_tiles;
    };
    const int span = spans.first + rank + warpgroup * kDecodeClusterBlocks;
    has_span = is_shared(span);
    begin_tile = spans.begin_tile(span);
    end_tile = has_span ? spans.end_tile(span) : begin_tile;
    const int other = spans.first + rank + (1 - warpgroup) * kDecodeClusterBlocks;
    other_tiles = is_shared(other)
                      ? static_cast<uint32_t>(spans.end_tile(other) - spans.begin_tile(other))
                      : 0u;
    tail_span = spans.first + rank +
                (spans.first + rank + kDecodeClusterBlocks < spans.end ? kDecodeClusterBlocks : 0);
    tail_warpgroup = tail_span == span ? warpgroup : 1 - warpgroup;
    tail_tile = spans.begin_tile(tail_span);
    has_tail = tail_span < spans.end && tail_tile >= item.shared_tiles;
    tail_has_prefix = has_tail && tail_tile * kTilePositions < item.prefix_tokens;
    tail_is_last = tail_span == spans.end - 1;
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A thread's position in its cluster.
struct DecodeClusterThread {
  int lane, warp;
  int warpgroup;  // number of the warpgroup and of its stage
  int rank;       // rank of the block in its cluster

  __device__ __forceinline__ DecodeClusterThread()
      : lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        warpgroup(warp / 4),
        rank(static_cast<int>(cluster_rank())) {}
};

// The work of a cluster at a time: the rows of an item, for one part of a key/value head.
struct DecodeClusterWork {
  AttentionItemCuda item;
  int part, kv_head;
  int part_heads, first_head;  // query heads of the part
  DecodeClusterTask task;

  // `index` counts parts within key/value heads within items.
  __device__ __forceinline__ DecodeClusterWork(const DecodeClusterArgs& args, int index,
                                               const DecodeClusterThread& thread)
      : item(step_data<AttentionItemCuda>(args.step,
                                          args.step->items_offset)[args.by_heads.divide(index)]),
        part(args.by_parts.remainder(args.by_heads.remainder(index))),
        kv_head(args.by_parts.divide(args.by_heads.remainder(index))),
        part_heads(min(args.group_heads - part * 8, 8)),
        first_head(kv_head * args.group_heads + part * 8),
        task(item, args.window, thread.rank, thread.warpgroup) {}

  // Returns the columns that a block merges, counted once per span.
  __device__ __forceinline__ int merged_columns() const {
    return (item.row_spans - item.num_rows * task.first_span) * part_heads;
  }
};

constexpr int kTailDims = 64;  // dimensions of values that a warp takes at a time

// The share of a warp in its block's tail. The tail's warpgroup takes part, and so does the other
// one if it has no span.
struct DecodeClusterTailShare {
  int warps;  // warps that share the tail; 0 without a tail
  int shift;  // logarithm of the number of warps that share a row
};
template <class Layout>
__device__ __forceinline__ DecodeClusterTailShare
decode_cluster_tail_share(const DecodeClusterWork& work) {
  const int warps = work.task.tail_warpgroup == 0 ? kDecodeClusterWarps : kDecodeClusterWarps / 2;
  int shift = 0;
  while ((work.item.num_rows << (shift + 1)) <= warps && (kTailDims << shift) < Layout::kDim)
    ++shift;
  return {work.task.has_tail ? warps : 0, shift};
}

#endif

}  // namespace forerun::cuda
