// What the many-row kernel of attention (attention_tiles_cuda.cu) is given, how it divides its
// shared memory, and what it loads and leaves. Included by the kernel alone.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention_args_cuda.h"
#include "kernels/attention/attention_columns_cuda.h"
#include "kernels/attention/attention_load_cuda.h"
#include "kernels/attention/kv_layout_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

constexpr int kTilesThreads = 3 * 128;
// Shared by the warpgroups, which have rows of one item each; where items are spans, of at most one
// warpgroup's columns, each has items and half of the stages of its own.
constexpr int kTilesStages = 6;
constexpr int tiles_stages(bool span) { return span ? kTilesStages / 2 : kTilesStages; }
constexpr int kTilesBarriers = kTilesStages * 16;  // of each stage: it is there; it is free

template <int kDim>
struct TilesLayout {
  static constexpr int kStageBytes = 2 * tile_bytes(kDim);     // keys, then values
  static constexpr int kQueries = kTilesStages * kStageBytes;  // [warpgroup] panels of 64 columns
  static constexpr int kBarriers = kQueries + 2 * tile_bytes(kDim);
  static constexpr int kBytes = kBarriers + kTilesBarriers;
};

struct TilesArgs {
  const AttentionStepCuda* step;
  const __nv_bfloat16* q;  // rotated; null: `qkv` is to be
  const __nv_bfloat16* qkv;
  uint16_t* attended;
  ActivationFormat attended_format;
  float* partials;
  const std::byte* kv;
  int64_t qkv_stride, attended_stride, block_stride, partial_floats;
  int kv_heads, num_heads, head_dim, group_heads, parts, row_columns, window;
  float scale_log2;
  bool early;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// An item's work for one part of a key/value head: long ones first. `kSpan`: the item is a span.
template <bool kSpan>
struct TilesWork {
  AttentionItemCuda item;
  int head, kv_head, part, begin_tile;

  __device__ __forceinline__ TilesWork(const TilesArgs& args, int work, int num_items) {
    const int heads = args.kv_heads * args.parts;
    const int offset = kSpan ? args.step->prefix_items_offset : args.step->items_offset;
    item = step_data<AttentionItemCuda>(args.step, offset)[num_items - 1 - work / heads];
    head = work % heads;
    kv_head = head / args.parts;
    part = head % args.parts;
    begin_tile = args.window > 0 ? max(item.lowest - args.window + 1, 0) / kTilePositions : 0;
    begin_tile = max(begin_tile, item.first_tile);
  }
};

// Where a warpgroup's work begins and how it goes on: neighbours go to different SMs.
template <bool kSpan>
__device__ __forceinline__ int first_work(int group) {
  return static_cast<int>(blockIdx.x + (kSpan ? group * gridDim.x : 0));
}
template <bool kSpan>
__device__ __forceinline__ int next_work(int work) {
  return work + static_cast<int>(gridDim.x) * (kSpan ? 2 : 1);
}

template <int kDim, bool kSpan>
__device__ __forceinline__ void copy_tiles(const TilesArgs& args, uint32_t shared, int count,
                                           int num_items, int group) {
  using Layout = TilesLayout<kDim>;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  const int first_stage = kSpan ? group * tiles_stages(kSpan) : 0;
  int stage = 0;
  uint32_t parity = 1;
  for (int work = first_work<kSpan>(group); work < count; work = next_work<kSpan>(work)) {
    const TilesWork<kSpan> the(args, work, num_items);
    for (int tile = the.begin_tile; tile < the.item.end_tile; ++tile) {
      const int block = tables[the.item.table + tile];
      const std::byte* const keys =
          args.kv + block * args.block_stride + int64_t{the.kv_head} * tile_bytes(kDim);
      const uint32_t target = shared + (first_stage + stage) * Layout::kStageBytes;
      const uint32_t filled = shared + Layout::kBarriers + (first_stage + stage) * 16;
      barrier_wait(filled + 8, parity);
      barrier_arrive_expecting(filled, Layout::kStageBytes);
      bulk_copy(target, keys, tile_bytes(kDim), filled);
      bulk_copy(target + tile_bytes(kDim), keys + int64_t{args.kv_heads} * tile_bytes(kDim),
                tile_bytes(kDim), filled);
      if (++stage == tiles_stages(kSpan)) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
}

// Zeros in the place of values of positions past `highest`, which may be anything: not even their
// weight of zero would make them harmless.
template <int kDim>
__device__ __forceinline__ void clear_values(uint32_t values, int first, int thread) {
  constexpr int kPieces = kDim / 8;
  for (int i = first * kPieces + thread; i < kTilePositions * kPieces; i += 128) {
    const int row = i / kPieces;
    store_shared_16(values + row * kPanelRowBytes + kv_piece(i % kPieces, row),
                    make_uint4(0, 0, 0, 0));
  }
}

// Rotated queries of a warpgroup's rows, to shared memory.
template <int kDim>
__device__ __forceinline__ void stage_queries(const TilesArgs& args, int first_row, int num_rows,
                                              int first_head, int part_heads, uint32_t queries,
                                              int thread) {
  constexpr int kPairs = kDim / 16;  // of pieces half a head apart
  for (int i = thread; i < 64 * kPairs; i += 128) {
    const int column = i / kPairs;
    const int piece = i % kPairs;
    const int row = column / args.row_columns;
    const int head = column % args.row_columns;
    if (row >= num_rows || head >= part_heads) continue;
    const int64_t at = first_row + row;
    const auto* const from = reinterpret_cast<const uint4*>(
        args.q != nullptr ? args.q + (at * args.num_heads + first_head + head) * kDim
                          : args.qkv + at * args.qkv_stride + (first_head + head) * kDim);
    uint4 low = from[piece];
    uint4 high = from[piece + kPairs];
    if (args.q == nullptr) {
      PieceAngles angles;
      angles.load(args.step, first_row + row, piece, kDim);
      angles.rotate_pieces(low, high);
    }
    const uint32_t to = queries + column * kPanelRowBytes;
    store_shared_16(to + kv_piece(piece, column), low);
    store_shared_16(to + kv_piece(piece + kPairs, column), high);
  }
}

// A span's sums of a row's head, where attention_merge_cuda.h expects them. `half`: the lane's
// column g or g + 8; `head`: of the part.
template <int kDim>
__device__ __forceinline__ void store_partial(const ColumnSums<kDim>& sums, int half,
                                              float* partial, int head, int lane) {
  const int t = lane & 3;
  float* const to = partial + head / 2 * 4 + head % 2;
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[(j / 2 * 32 + (2 * t + i) * 4) * 4 + j % 2 * 2] =
          half == 0 ? sums.out[j][i] : sums.out[j][2 + i];
    }
  }
  if (t == 0) {
    to[kDim * 8] = half == 0 ? sums.most[0] : sums.most[1];
    to[kDim * 8 + 2] = half == 0 ? sums.weight[0][0] : sums.weight[1][0];
  }
}

#endif

}  // namespace forerun::cuda
