// A row's last tile in the cluster kernel of attention (attention_cluster_cuda.cu), where it sees
// what its companions do not: a warp takes a row at a time, or some dimensions of its values, where
// there are warps enough; the row's heads are the upper half of the first operand, and lanes name
// the rows of keys and values to matrix loads in the order of the row's own positions. Device code;
// included by the kernel alone.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_cluster_args_cuda.h"
#include "kernels/attention/attention_columns_cuda.h"
#include "kernels/attention/kv_layout_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int kDim>
struct TailRow {
  using Layout = ClusterLayout<kDim>;
  uint32_t shared;  // the block's
  uint32_t list;    // of the row: a byte a position from its boundary on, a number of an extra
  int stage;        // of the tile's prefix
  int begin, position, boundary, column;
  float most, weight;
  uint32_t weights[4][2];

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

  // Weights of the tile's keys: the last look at keys.
  __device__ __forceinline__ void weigh_keys(float scale_log2, int window, int lane) {
    const int own = column + (lane & 7);
    const uint32_t queries = shared + Layout::kQueries + own * kPanelRowBytes;
    Place keys[8];
    float score[8][4];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      keys[j] = place(begin + 8 * j + (lane & 7), Layout::kKeys, Layout::kExtraKeys);
#pragma unroll
      for (int i = 0; i < 4; ++i) score[j][i] = 0.0f;
    }
#pragma unroll 1
    for (int s = 0; s < kDim / 32; ++s) {  // not unrolled: code run once is as slow as it is long
      const int piece = 4 * s + (lane >> 3);
      const uint4 q = load_matrices(queries + kv_piece(piece, own, kClusterColumns));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 1 && begin + 32 > position) break;
        uint4 k[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) k[j] = load_matrices(keys[half * 4 + j].piece(piece));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          mma_bf16(score[half * 4 + j], {q.x, 0u, q.y, 0u}, k[j].x, k[j].y);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          mma_bf16(score[half * 4 + j], {q.z, 0u, q.w, 0u}, k[j].z, k[j].w);
        }
      }
    }
    const int first_seen = window > 0 ? position - window + 1 : 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = begin + 8 * j + 2 * (lane & 3) + i;
        score[j][i] =
            at <= position && at >= first_seen ? __fmul_rn(score[j][i], scale_log2) : kNothing;
      }
    }
    ColumnSums<kDim> sums;  // of which only the softmax is needed here
    sums.clear();
    uint32_t packed[4][4];
    weigh<kDim, 1>(score, sums, packed);
    sums.template close<1>();
    most = sums.most[0];
    weight = sums.weight[0][0];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      weights[c][0] = packed[c][0];
      weights[c][1] = packed[c][2];
    }
  }

  // Between the two looks at the tile a warp's results wait in shared memory; `index` below
  // kGroupRows.
  __device__ __forceinline__ uint32_t word(int of, int index, int lane) const {
    return shared + Layout::kTails + (index * Layout::kTailWords + of) * 128 + lane * 4;
  }
  __device__ __forceinline__ void put_aside(int index, int lane) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) store_shared_4(word(i, index, lane), weights[i / 2][i % 2]);
    store_shared_4(word(8, index, lane), __float_as_uint(most));
    store_shared_4(word(9, index, lane), __float_as_uint(weight));
  }
  __device__ __forceinline__ void take_up(int index, int lane) {
#pragma unroll
    for (int i = 0; i < 8; ++i) weights[i / 2][i % 2] = load_shared_4(word(i, index, lane));
    most = __uint_as_float(load_shared_4(word(8, index, lane)));
    weight = __uint_as_float(load_shared_4(word(9, index, lane)));
  }

  // Sums of values, of dimensions [32 * first, 32 * end).
  __device__ __forceinline__ void add_values(ColumnSums<kDim>& sums, int first, int end,
                                             int lane) const {
    sums.clear();
    sums.most[0] = most;
    sums.weight[0][0] = weight;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (begin + 16 * c > position) break;
      const Place values =
          place(begin + 16 * c + (lane & 15), Layout::kValues, Layout::kExtraValues);
#pragma unroll
      for (int dims = 0; dims < kDim / 32; ++dims) {
        if (dims < first || dims >= end) continue;
#pragma unroll
        for (int j = 2 * dims; j < 2 * dims + 2; ++j) {
          uint32_t b[4];
          load_matrices_transposed(b, values.piece(2 * j + (lane >> 4)));
          mma_bf16(sums.out[2 * j], {weights[c][0], 0u, weights[c][1], 0u}, b[0], b[1]);
          mma_bf16(sums.out[2 * j + 1], {weights[c][0], 0u, weights[c][1], 0u}, b[2], b[3]);
        }
      }
    }
  }
};

#endif

}  // namespace forerun::cuda
