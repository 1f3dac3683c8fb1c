// The attention of a decode cluster (attention/cuda/decode_cluster.cu) to the tail of an item: its
// last tile, where a row attends to keys that other rows of its query tile do not attend to. The
// tail's warpgroup scores all columns with all keys that any row attends to there, those of the
// tile and the extras, as if they were a span. Then a warp takes a row at a time, or some of its
// dimensions if there are enough warps. It picks the scores of the row's visible positions. The
// row's heads are rows 0 to 7 of the A operand, and lanes supply the row addresses of values
// to ldmatrix in the order of the positions. Device code; only that kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/decode_cluster_args.h"
#include "kernels/attention/cuda/decode_cluster_exchange.h"
#include "kernels/attention/cuda/decode_cluster_stage.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The addresses of a column's scores; those of an even key and the next one are neighbours. To
// avoid bank conflicts, a column begins a quarter of all banks after the previous one or, if there
// is no room for that, has its keys in a swizzled order with the same effect.
template <class Layout>
struct TailScores {
  uint32_t of_column;
  int first_bytes, swizzle;

  // Keys count from `first` on.
  __device__ __forceinline__ TailScores(uint32_t shared, int column, int first)
      : of_column(shared + Layout::kScores + column * Layout::kColumnScoreBytes),
        first_bytes(first * 4),
        swizzle((column & 3) * 32) {
    if (Layout::kPadsScores) of_column += first_bytes;
  }
  __device__ __forceinline__ uint32_t of_key(int key) const {
    return of_column + (Layout::kPadsScores ? key * 4 : (first_bytes + key * 4) ^ swizzle);
  }
};

// Computes the scores of all columns in the tail's warpgroup, which reads no keys afterwards.
// Invisible and missing keys are scored too and never picked.
template <class Layout>
__device__ __forceinline__ void score_tail(const DecodeClusterArgs& args,
                                           const DecodeClusterTileInfo<Layout>& tile_info,
                                           const DecodeClusterBarriers<Layout>& barriers,
                                           const DecodeClusterThread& thread) {
  if (tile_info.field(kTailHasPrefix) != 0)
    barriers.wait_for_tail(thread.warpgroup, thread.warpgroup);
  float tile[kTilePositions / 8][4], extras[kDecodeClusterExtras / 8][4];
  const uint32_t queries = tile_info.shared + Layout::kQueries;
  wgmma_fence();
  request_scores<Layout::kDim>(
      tile, queries, Layout::kColumnPanelBytes,
      tile_info.shared + Layout::kKeys + thread.warpgroup * tile_bytes(Layout::kDim), kPanelBytes);
  request_scores<Layout::kDim>(extras, queries, Layout::kColumnPanelBytes,
                               tile_info.shared + Layout::kExtraKeys, Layout::kExtraPanelBytes);
  wgmma_commit();
  wgmma_wait(tile);
  wgmma_wait(extras);
  const int first = thread.warp % 4 * 16;
  if (first >= tile_info.field(kNumRows) * args.row_columns) return;
  scale_scores(tile, args.scale_log2);
  scale_scores(extras, args.scale_log2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const TailScores<Layout> scores(tile_info.shared, first + thread.lane / 4 + 8 * half,
                                    2 * (thread.lane & 3));
#pragma unroll
    for (int j = 0; j < kTilePositions / 8; ++j) {
      store_shared_pair(scores.of_key(8 * j), tile[j][2 * half], tile[j][2 * half + 1]);
    }
#pragma unroll
    for (int j = 0; j < kDecodeClusterExtras / 8; ++j) {
      store_shared_pair(scores.of_key(kTilePositions + 8 * j), extras[j][2 * half],
                        extras[j][2 * half + 1]);
    }
  }
}

template <class Layout>
struct TailRow {
  uint32_t shared;  // the block's shared memory
  // The row's list: one byte per position of the tile, the number of a key or an extra.
  uint32_t list;
  uint32_t values;  // the tile's values
  int begin, last_visible, column;

  __device__ __forceinline__ TailRow(const DecodeClusterArgs& args,
                                     const DecodeClusterTileInfo<Layout>& tile_info, int row)
      : shared(tile_info.shared),
        list(tile_info.shared + Layout::kLists + row * kTilePositions),
        values(tile_info.shared + Layout::kValues +
               tile_info.field(kTailWarpgroup) * tile_bytes(Layout::kDim)),
        begin(tile_info.field(kTailBegin)),
        last_visible(tile_info.last_visible(row)),
        column(row * args.row_columns) {}

  // Computes the unnormalized exponentials of the row's visible positions and their sums, once all
  // scores are there. Lanes of columns past the last read the last one, so that they stay in
  // bounds. Loads all key numbers before the first score, since loads of shared memory stay in
  // order.
  __device__ __forceinline__ void exponentiate(int window, ColumnSoftmax& sums,
                                               uint32_t (&probs)[4][4], int lane) const {
    const int first_seen = window > 0 ? last_visible - window + 1 : 0;
    const TailScores<Layout> scores(shared, min(column + lane / 4, Layout::kColumns - 1), 0);
    const auto at = [lane](int i) { return i / 2 * 8 + 2 * (lane & 3) + i % 2; };
    int key[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) key[i] = load_shared_byte(list + at(i));
    float score[8][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float picked = __uint_as_float(load_shared_4(scores.of_key(key[i])));
      const bool is_seen = begin + at(i) <= last_visible && begin + at(i) >= first_seen;
      score[i / 2][i % 2] = is_seen ? picked : kMinusInfinity;
    }
    sums.clear();
    float rescale[2];
    exponentiate_scores<1>(score, sums, probs, rescale);
    sums.reduce_lanes<1>();
  }

  // The addresses of the pieces of one position's values.
  struct Place {
    uint32_t row;
    int swizzle, panel_bytes;
    __device__ __forceinline__ uint32_t piece(int piece) const {
      return row + (piece >> 3) * panel_bytes + ((piece ^ swizzle) & 7) * 16;
    }
  };
  __device__ __forceinline__ Place place(int at) const {
    const int key = load_shared_byte(list + at);
    const bool is_extra = key >= kTilePositions;
    const int number = is_extra ? key - kTilePositions : key;
    return {(is_extra ? shared + Layout::kExtraValues : values) + number * kPanelRowBytes, number,
            (is_extra ? kDecodeClusterExtras : kTilePositions) * kPanelRowBytes};
  }
  // The rows of values for which a lane supplies addresses, one of every 16 positions.
  struct Values {
    Place of[4];
  };
  __device__ __forceinline__ Values values_of_lane(int lane) const {
    Values result;
#pragma unroll
    for (int c = 0; c < 4; ++c) result.of[c] = place(16 * c + (lane & 15));
    return result;
  }
  // Computes weighted sums of values, for the dimensions from 32 * part on.
  template <int kEights>
  __device__ __forceinline__ void add_values(const Values& from, const uint32_t (&probs)[4][4],
                                             int part, int lane, float (&out)[kEights][4]) const {
    clear_sums<kEights * 8>(out);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int j = 0; j < kEights / 2; ++j) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, from.of[c].piece(4 * part + 2 * j + (lane >> 4)));
        mma_bf16(out[2 * j], {probs[c][0], 0u, probs[c][2], 0u}, b[0], b[1]);
        mma_bf16(out[2 * j + 1], {probs[c][0], 0u, probs[c][2], 0u}, b[2], b[3]);
      }
    }
  }
};

// Computes the warp's share of the tail, and sends it to the blocks that merge it.
template <class Layout>
__device__ __forceinline__ void attend_tail(const DecodeClusterArgs& args,
                                            const DecodeClusterTileInfo<Layout>& tile_info,
                                            const DecodeClusterBarriers<Layout>& barriers,
                                            const DecodeClusterThread& thread) {
  const int warps = tile_info.field(kTailWarps);
  int index = (thread.warp + 4 * tile_info.field(kTailWarpgroup)) % kDecodeClusterWarps;
  if (index >= warps) return;
  named_barrier(3, warps * 32);  // all scores are there
  const int lane = thread.lane;
  const int shift = tile_info.field(kTailShift);
  const int tails = tile_info.field(kNumRows) << shift;
#pragma unroll 1
  for (; index < tails; index += warps) {
    const TailRow<Layout> tail(args, tile_info, index >> shift);
    if (tail.begin > tail.last_visible) continue;
    ColumnSoftmax sums;
    uint32_t probs[4][4];
    const auto values = tail.values_of_lane(lane);
    tail.exponentiate(args.window, sums, probs, lane);
    constexpr int kParts = kTailDims / 32;
    const int parts = Layout::kDim / 32 >> shift;
    const int first = (index & ((1 << shift) - 1)) * parts;
#pragma unroll 1
    for (int part = first; part < first + parts; part += kParts) {
      float out[4 * kParts][4];
      tail.add_values(values, probs, part, lane, out);
      barriers.wait_for_released_keys();
      if (lane / 4 < tile_info.field(kPartHeads)) {
        const int span = tile_info.field(kTailSpan);
        const int column = tail.column + lane / 4;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
          send<Layout>(out + 4 * i, 0, part + i, tile_info.shared, span, column, lane);
        }
        if (part == 0) send_sums<Layout>(sums, 0, tile_info.shared, span, column, lane);
      }
      __syncwarp();
    }
  }
}

#endif

}  // namespace forerun::cuda
