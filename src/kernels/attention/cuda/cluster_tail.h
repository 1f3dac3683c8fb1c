// A row's last tile in the cluster kernel of attention (attention/cuda/cluster.cu), where it sees
// what the other rows of its group do not: a warp takes a row at a time, or some of its keys and
// then some dimensions of its values, where there are warps enough; the row's heads are the upper
// half of the first operand, and lanes name the rows of keys and values to matrix loads in the
// order of the row's own positions. Device code; included by the kernel alone.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/cluster_args.h"
#include "kernels/attention/cuda/cluster_exchange.h"
#include "kernels/attention/cuda/cluster_stage.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int kDim>
struct TailRow {
  using Layout = ClusterLayout<kDim>;
  uint32_t shared;  // the block's
  uint32_t list;    // of the row: a byte a position from its boundary on, a number of an extra
  uint32_t scores;  // of the row: [8 positions][lane] two
  int stage;        // of the tile's prefix
  int begin, position, boundary, column;

  __device__ __forceinline__ TailRow(const ClusterArgs& args, const ClusterNotes<kDim>& notes,
                                     int row)
      : shared(notes.shared),
        list(shared + Layout::kLists + row * kMostExtras),
        scores(shared + Layout::kScores + row * Layout::kRowScoreBytes),
        stage(notes.fact(kTailGroup)),
        begin(notes.fact(kTailBegin)),
        position(notes.position(row)),
        boundary(notes.boundary(row)),
        column(row * args.row_columns) {}

  // Where a piece of a position's row lies.
  struct Place {
    uint32_t row;
    int swizzle, panel_bytes;
    __device__ __forceinline__ uint32_t piece(int piece) const {
      return row + (piece >> 3) * panel_bytes + ((piece ^ swizzle) & 7) * 16;
    }
  };
  // Positions that the row does not see give any row that is there. Without branches: what follows
  // for several positions is to overlap.
  __device__ __forceinline__ Place place(int at, int tiles, int extras) const {
    const int extra = load_shared_byte(list + min(max(at - boundary, 0), position - boundary));
    const bool is_prefix = at < boundary;
    const int number = is_prefix ? at - begin : extra;
    const uint32_t from =
        shared + (is_prefix ? tiles + stage * tile_bytes(kDim) : static_cast<uint32_t>(extras));
    return {from + number * kPanelRowBytes, number,
            (is_prefix ? kTilePositions : kClusterExtras) * kPanelRowBytes};
  }

  __device__ __forceinline__ uint32_t score_at(int eight, int lane) const {
    return scores + (eight * 32 + lane) * 8;
  }
  // Scores of every `step`-th 16 positions from the `first`-th on: the last look at keys.
  __device__ __forceinline__ void score_keys(int first, int step, float scale_log2, int window,
                                             int lane) const {
    const int own = column + (lane & 7);
    const uint32_t queries = shared + Layout::kQueries + own * kPanelRowBytes;
    const int first_seen = window > 0 ? position - window + 1 : 0;
    uint4 q[kDim / 32];
#pragma unroll
    for (int s = 0; s < kDim / 32; ++s) {
      q[s] = load_matrices(queries + kv_piece(4 * s + (lane >> 3), own, kClusterColumns));
    }
#pragma unroll 1
    for (int chunk = first; chunk < 4; chunk += step) {
      float score[2][4] = {};
      if (begin + 16 * chunk <= position) {
        Place keys[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          keys[j] =
              place(begin + 16 * chunk + 8 * j + (lane & 7), Layout::kKeys, Layout::kExtraKeys);
        }
#pragma unroll
        for (int s = 0; s < kDim / 32; ++s) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const uint4 k = load_matrices(keys[j].piece(4 * s + (lane >> 3)));
            mma_bf16(score[j], {q[s].x, 0u, q[s].y, 0u}, k.x, k.y);
            mma_bf16(score[j], {q[s].z, 0u, q[s].w, 0u}, k.z, k.w);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = begin + 16 * chunk + 8 * j + 2 * (lane & 3);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          score[j][i] = at + i <= position && at + i >= first_seen
                            ? __fmul_rn(score[j][i], scale_log2)
                            : kNothing;
        }
        store_shared_pair(score_at(2 * chunk + j, lane), score[j][0], score[j][1]);
      }
    }
  }

  // The tile's softmax, once all scores are there.
  __device__ __forceinline__ void exponentiate(ColumnSoftmax& sums, uint32_t (&probs)[4][4],
                                               int lane) const {
    float score[8][4];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 two = load_shared_pair(score_at(j, lane));
      score[j][0] = two.x;
      score[j][1] = two.y;
    }
    sums.clear();
    float shrink[2];
    exponentiate_scores<1>(score, sums, probs, shrink);
    sums.reduce_lanes<1>();
  }

  // Rows of values that a lane names, one of each 16 positions.
  struct Values {
    Place of[4];
  };
  __device__ __forceinline__ Values values(int lane) const {
    Values result;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      result.of[c] = place(begin + 16 * c + (lane & 15), Layout::kValues, Layout::kExtraValues);
    }
    return result;
  }
  // Sums of values, of 32 dimensions from 32 * part on.
  __device__ __forceinline__ void add_values(const Values& values, const uint32_t (&probs)[4][4],
                                             int part, int lane, float (&out)[4][4]) const {
    clear_sums<32>(out);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (begin + 16 * c > position) break;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t b[4];
        load_matrices_transposed(b, values.of[c].piece(4 * part + 2 * j + (lane >> 4)));
        mma_bf16(out[2 * j], {probs[c][0], 0u, probs[c][2], 0u}, b[0], b[1]);
        mma_bf16(out[2 * j + 1], {probs[c][0], 0u, probs[c][2], 0u}, b[2], b[3]);
      }
    }
  }
};

// Scores of the warp's share of the tail.
template <int kDim>
__device__ __forceinline__ void score_tail(const ClusterArgs& args, const ClusterNotes<kDim>& notes,
                                           const ClusterTailShare& share, int tails,
                                           const ClusterBarriers<kDim>& barriers,
                                           const ClusterThread& thread) {
#pragma unroll 1
  for (int index = share.first; index < tails; index += share.warps) {
    const int shift = notes.fact(kTailShift);
    const TailRow<kDim> tail(args, notes, index >> shift);
    if (tail.begin > tail.position) continue;
    if (notes.fact(kTailHasPrefix) != 0) barriers.wait_for_tail(tail.stage, thread.group);
    tail.score_keys(index & ((1 << shift) - 1), 1 << shift, args.scale_log2, args.window,
                    thread.lane);
  }
}

// Probabilities and values of the warp's share of the tail, to the blocks that merge them.
template <int kDim>
__device__ __forceinline__ void attend_tail(const ClusterArgs& args,
                                            const ClusterNotes<kDim>& notes,
                                            const ClusterTailShare& share, int tails,
                                            const ClusterBarriers<kDim>& barriers, int lane) {
#pragma unroll 1
  for (int index = share.first; index < tails; index += share.warps) {
    const int shift = notes.fact(kTailShift);
    const int row = index >> shift;
    const TailRow<kDim> tail(args, notes, row);
    if (tail.begin > tail.position) continue;
    // The row's warps have told one another its scores.
    if (shift > 0) named_barrier(3 + row, 32 << shift);
    ColumnSoftmax sums;
    uint32_t probs[4][4];
    float out[4][4];
    const auto values = tail.values(lane);
    tail.exponentiate(sums, probs, lane);
    const int parts = kDim / 32 >> shift;
    const int first = (index & ((1 << shift) - 1)) * parts;
#pragma unroll 1
    for (int part = first; part < first + parts; ++part) {
      tail.add_values(values, probs, part, lane, out);
      barriers.wait_for_leaving();
      if (lane / 4 < notes.fact(kPartHeads)) {
        const int own = tail.column + lane / 4;
        send<kDim>(out, 0, part, notes.shared, notes.fact(kTailSpan), own, lane);
        if (part == 0) {
          send_sums<kDim>(sums, 0, notes.shared, notes.fact(kTailSpan), own, lane);
        }
      }
      __syncwarp();
    }
  }
}

#endif

}  // namespace forerun::cuda
