// What the cluster kernel of attention (attention/cuda/cluster.cu) is given, how it divides its
// shared memory, and what a block has to do. Included by the kernel alone.
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

// Two warpgroups, each with a stage for one tile of keys and values.
constexpr int kClusterWarps = 8;
constexpr int kClusterThreads = kClusterWarps * 32;

// What a block knows of its item once it has met the previous kernel's end: from there on a load
// from global memory, or of a register that was spilled there, is a trip to the L2.
enum ClusterFact : int {
  kFirstRow,
  kNumRows,
  kFirstHead,
  kPartHeads,
  kKvHead,
  kFirstSpan,
  kTailSpan,
  kTailBegin,  // its first position
  kTailGroup,
  kTailHasPrefix,
  kTailWarps,  // ClusterTailShare's, as the next
  kTailShift,
  kNumFacts
};

// Shared memory of a block for items of kColumns columns, in bytes from its beginning; operands of
// wgmma begin at multiples of 1,024.
template <int kDimensions, int kColumnCount>
struct ClusterLayout {
  static constexpr int kDim = kDimensions;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kRows =
      kColumns == kNarrowClusterColumns ? kGroupRows : kWideClusterRows;  // of an item
  // A block merges this many dimensions of every column: of a span and column, kDim / 8 sums, and
  // behind those of all its largest score and its sum of exponentials.
  static constexpr int kSliceBytes = kDim / kClusterBlocks * 4;
  static constexpr int kPanels = kDim / 64;
  static constexpr int kColumnPanelBytes = kColumns * kPanelRowBytes;
  static constexpr int kExtraPanelBytes = kClusterExtras * kPanelRowBytes;
  static constexpr int kExtraBytes = kPanels * kExtraPanelBytes;

  static constexpr int kKeys = 0;  // [warpgroup] tile
  static constexpr int kExtraKeys = kKeys + 2 * tile_bytes(kDim);
  // wgmma reads 64 columns, whatever is there.
  static constexpr int kQueries = kExtraKeys + kExtraBytes;
  static constexpr int kQueriesEnd = kQueries + kPanels * kColumnPanelBytes;
  static_assert(kColumnPanelBytes % 1024 == 0);
  // Results of the cluster's blocks take the place of keys and queries once nobody needs them.
  static constexpr int kReceived = 0;  // [span][column][kSliceBytes]
  static constexpr int kReceivedSums = kReceived + kClusterSpans * kColumns * kSliceBytes;
  static constexpr int kReceivedEnd = kReceivedSums + kClusterSpans * kColumns * 8;
  static constexpr int kValues =  // [warpgroup] tile
      ((kReceivedEnd > kQueriesEnd ? kReceivedEnd : kQueriesEnd) + 1023) / 1024 * 1024;
  static constexpr int kExtraValues = kValues + 2 * tile_bytes(kDim);
  // Where a row has the positions of its tail: bytes [row][64], a key each.
  static constexpr int kLists = kExtraValues + kExtraBytes;
  static constexpr int kPositions = kLists + kRows * kTilePositions;  // [row]
  static constexpr int kFacts = kPositions + kRows * 4;               // ClusterFact
  // Of the tail: f32 [column][key], the tile's and then extras (TailScores).
  static constexpr int kScores = kFacts + kNumFacts * 4;
  static constexpr bool kPadsScores = kColumns == kNarrowClusterColumns;
  static constexpr int kColumnScoreBytes =
      (kTilePositions + kClusterExtras + (kPadsScores ? 8 : 0)) * 4;
  static_assert(kScores % 16 == 0);
  // Before scores there are angles in their place: of extras, the first of which are the rows.
  static constexpr int kAngles = kScores;
  static constexpr int kAnglesBytes = kClusterExtras * kDim * 4;
  static constexpr int kScoresBytes = kColumns * kColumnScoreBytes;
  // Of two tiles, of results, and of leaving keys and queries.
  static constexpr int kBarriers =
      kScores + (kAnglesBytes > kScoresBytes ? kAnglesBytes : kScoresBytes);
  static constexpr int kReceivedBarrier = kBarriers + 16;
  static constexpr int kLeaveBarrier = kBarriers + 24;
  static constexpr int kBytes = kBarriers + 32;
  // Two blocks a multiprocessor, which has 228 KB, a block's first KB reserved. Or one beside a
  // linear layer's of just over half (LinearFootprint): wide items and those of 9 to 16 rows beside
  // 115,840 bytes, narrow ones, which up to 8 rows have too, beside half and 2 KB (smem_limits()).
  static_assert(kBytes <= (kColumns == kNarrowClusterColumns ? 113664 : 115584));
};

struct ClusterArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* qkv;
  uint16_t* attended;
  ActivationFormat attended_format;
  std::byte* kv;
  int64_t qkv_stride, attended_stride, block_stride;
  int k_offset, v_offset, kv_heads, group_heads, parts, row_columns, window;
  Divisor by_row_columns, by_parts, by_heads;  // by_heads: parts of all key/value heads
  float scale_log2;
  bool early;
};

// What a warpgroup of block `rank` has to do for an item: a span that its rows share, and the tail,
// the block's last span if rows differ there.
struct ClusterTask {
  int begin_tile, end_tile;  // of the warpgroup's span
  int first_span, tail_span, tail_tile, tail_group;
  uint32_t other_tiles;  // of the other warpgroup's span
  bool has_span, has_tail, tail_has_prefix, tail_is_last;

  __device__ __forceinline__ ClusterTask(const AttentionItemCuda& item, int window, int rank,
                                         int group) {
    const ItemSpans spans(item, window);
    first_span = spans.first;
    const auto is_shared = [&](int span) {
      return span < spans.end && spans.begin_tile(span) < item.shared_tiles;
    };
    const int span = spans.first + rank + group * kClusterBlocks;
    has_span = is_shared(span);
    begin_tile = spans.begin_tile(span);
    end_tile = has_span ? spans.end_tile(span) : begin_tile;
    const int other = spans.first + rank + (1 - group) * kClusterBlocks;
    other_tiles = is_shared(other)
                      ? static_cast<uint32_t>(spans.end_tile(other) - spans.begin_tile(other))
                      : 0u;
    tail_span =
        spans.first + rank + (spans.first + rank + kClusterBlocks < spans.end ? kClusterBlocks : 0);
    tail_group = tail_span == span ? group : 1 - group;
    tail_tile = spans.begin_tile(tail_span);
    has_tail = tail_span < spans.end && tail_tile >= item.shared_tiles;
    tail_has_prefix = has_tail && tail_tile * kTilePositions < item.prefix_tokens;
    tail_is_last = tail_span == spans.end - 1;
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A thread's place in its cluster.
struct ClusterThread {
  int lane, warp;
  int group;  // warpgroup, and its stage
  int rank;   // of the block

  __device__ __forceinline__ ClusterThread()
      : lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        group(warp / 4),
        rank(static_cast<int>(cluster_rank())) {}
};

// What a cluster does at a time: rows of an item, for a part of a key/value head.
struct ClusterWork {
  AttentionItemCuda item;
  int part, kv_head;
  int part_heads, first_head;  // query heads of the part
  ClusterTask task;

  // `index`: of a part of a key/value head of an item, which follow one another in this order.
  __device__ __forceinline__ ClusterWork(const ClusterArgs& args, int index,
                                         const ClusterThread& thread)
      : item(step_data<AttentionItemCuda>(args.step,
                                          args.step->items_offset)[args.by_heads.divide(index)]),
        part(args.by_parts.remainder(args.by_heads.remainder(index))),
        kv_head(args.by_parts.divide(args.by_heads.remainder(index))),
        part_heads(min(args.group_heads - part * 8, 8)),
        first_head(kv_head * args.group_heads + part * 8),
        task(item, args.window, thread.rank, thread.group) {}

  // Columns that a block merges, those of each span counted.
  __device__ __forceinline__ int merged_columns() const {
    return (item.row_spans - item.num_rows * task.first_span) * part_heads;
  }
};

constexpr int kTailDims = 64;  // of values, that a warp takes at a time

// How the block's warps share its tail: those without a span take part, of the tail's warpgroup or
// of both.
struct ClusterTailShare {
  int warps;  // 0: there is no tail
  int shift;  // logarithm of the number of warps that share a row
};
template <class Layout>
__device__ __forceinline__ ClusterTailShare cluster_tail_share(const ClusterWork& work) {
  const int warps = work.task.tail_group == 0 ? kClusterWarps : kClusterWarps / 2;
  int shift = 0;
  while ((work.item.num_rows << (shift + 1)) <= warps && (kTailDims << shift) < Layout::kDim)
    ++shift;
  return {work.task.has_tail ? warps : 0, shift};
}

#endif

}  // namespace forerun::cuda
