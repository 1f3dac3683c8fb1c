// The running softmax of columns (one query head of one row each) over tiles of 64 positions, for
// kernels that have columns as the first operand of wgmma. A lane holds columns g and g + 8 of its
// warp's 16 (g = lane / 4, t = lane % 4): scores of the positions 8j + 2t and the next, and sums of
// the dimensions 8j + 2t and the next. The bits are those of attention/cuda/row.h, where keys and
// values are the first operand: probabilities are added up by position modulo 8, then crosswise.
// Device code.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/row.h"
#include "kernels/attention/cuda/wgmma.h"
#include "kernels/cuda/activation_format.h"
#include "kernels/cuda/divide.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

struct ColumnSoftmax {
  float max_score[2];
  float exp_sum[2][2];  // sums over the lane's even and odd positions; after reduce_lanes(), [0] is
                        // over all

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      max_score[i] = kMinusInfinity;
      exp_sum[i][0] = exp_sum[i][1] = 0.0f;
    }
  }
  template <int kHalves = 2>
  __device__ __forceinline__ void reduce_lanes() {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) {
      float sum = __fadd_rn(exp_sum[i][0], exp_sum[i][1]);
      sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
      exp_sum[i][0] = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
    }
  }
};

// Weighted sums of values: [j] is for dimensions 8j + 2t and the next, first of column g, then of
// column g + 8.
template <int kDim>
__device__ __forceinline__ void clear_sums(float (&out)[kDim / 8][4]) {
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[j][i] = 0.0f;
  }
}
template <int kDim>
__device__ __forceinline__ void rescale_sums(float (&out)[kDim / 8][4], int half, float rescale) {
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
    out[j][2 * half] *= rescale;
    out[j][2 * half + 1] *= rescale;
  }
}

template <int kDim>
struct ColumnSums : ColumnSoftmax {
  float out[kDim / 8][4];

  __device__ __forceinline__ void clear() {
    ColumnSoftmax::clear();
    clear_sums<kDim>(out);
  }
};

// Merges the next span's sums, which are reduced over the lanes, into those of the spans before it.
template <int kDim>
__device__ __forceinline__ void merge(ColumnSums<kDim>& sums, const ColumnSums<kDim>& next) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 factors = merge_factors(sums.max_score[i], next.max_score[i]);
    sums.max_score[i] = fmaxf(sums.max_score[i], next.max_score[i]);
    sums.exp_sum[i][0] = merged(sums.exp_sum[i][0], next.exp_sum[i][0], factors);
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        float& out = sums.out[j][2 * i + odd];
        out = merged(out, next.out[j][2 * i + odd], factors);
      }
    }
  }
}

// Stores the outputs of a lane's column, g (`half` 0) or g + 8 (`half` 1), from its sums over all
// spans, `total`. `head` is the start of the column's head in its row of outputs.
template <int kDim>
__device__ __forceinline__ void store_column(const ColumnSums<kDim>& total, int half,
                                             ActivationFormat format, int head_dim,
                                             uint16_t* head) {
  constexpr int kEights = 4;  // groups of 8 dimensions at once
#pragma unroll
  for (int first = 0; first < kDim / 8; first += kEights) {
    float out[2 * kEights];
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i) out[i] = total.out[first + i / 2][2 * half + i % 2];
    divide_all(out, total.exp_sum[half][0]);
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int dim = 8 * (first + i) + 2 * (threadIdx.x & 3);
      if (dim >= head_dim) return;
      *reinterpret_cast<uint32_t*>(head + dim) =
          pack_activations(format, out[2 * i], out[2 * i + 1]);
    }
  }
}

// Scales products of queries and keys to scores, which are logarithms to base 2.
template <int kEights>
__device__ __forceinline__ void scale_scores(float (&score)[kEights][4], float scale_log2) {
#pragma unroll
  for (int j = 0; j < kEights; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) score[j][i] = __fmul_rn(score[j][i], scale_log2);
  }
}

// Scales the scores of the tile that begins at position `begin`, and sets invisible ones of a
// lane's columns to kMinusInfinity. `last_visible` is that of the columns' rows, -1 for missing
// columns; `window` is the number of positions that a row attends to, 0 for all.
__device__ __forceinline__ void mask_scores(float (&score)[8][4], const int (&last_visible)[2],
                                            int window, float scale_log2, int begin) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int last = last_visible[i >> 1];
    const int first = window > 0 ? last - window + 1 : 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int at = begin + 8 * j + 2 * (threadIdx.x & 3) + (i & 1);
      score[j][i] = at <= last && at >= first ? __fmul_rn(score[j][i], scale_log2) : kMinusInfinity;
    }
  }
}

// Sets scores of positions before the window to kMinusInfinity. `first_seen(i)` returns the first
// position in the window of the column of a lane's score [j][i].
template <class FirstSeen>
__device__ __forceinline__ void hide_before_window(float (&score)[8][4], int first_position,
                                                   int lane, const FirstSeen& first_seen) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int seen = first_seen(i);
    const int first = first_position + 2 * (lane & 3) + (i & 1);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (first + 8 * j < seen) score[j][i] = kMinusInfinity;
    }
  }
}

// Turns the scores of a tile (kMinusInfinity for invisible positions) into probabilities, packed as
// the first operand of four products. `rescale` gets the factors by which the columns' sums of
// values must be multiplied. `kHalves`: 1 if only column g counts.
template <int kHalves>
__device__ __forceinline__ void exponentiate_scores(float (&score)[8][4], ColumnSoftmax& sums,
                                                    uint32_t (&probs)[4][4], float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
    float max_score = kMinusInfinity;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      max_score = fmaxf(max_score, fmaxf(score[j][2 * i], score[j][2 * i + 1]));
    max_score = fmaxf(max_score, __shfl_xor_sync(~0u, max_score, 1));
    max_score = fmaxf(max_score, __shfl_xor_sync(~0u, max_score, 2));
    max_score = fmaxf(max_score, sums.max_score[i]);
    const float base = softmax_base(max_score);
    rescale[i] = exp2_approx(sums.max_score[i] - base);
    sums.max_score[i] = max_score;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float exp_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float& s = score[j][2 * i + odd];
        s = exp2_approx(s - base);
        exp_sum = __fadd_rn(exp_sum, s);
      }
      sums.exp_sum[i][odd] = __fmaf_rn(sums.exp_sum[i][odd], rescale[i], exp_sum);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      probs[c][i] = pack_bf16x2(score[2 * c][2 * i], score[2 * c][2 * i + 1]);
      probs[c][2 + i] = pack_bf16x2(score[2 * c + 1][2 * i], score[2 * c + 1][2 * i + 1]);
    }
  }
}

// Turns scores into probabilities as above, and shrinks the columns' sums. `has_sums` is false if
// no tile came before, so that the sums are zero.
template <int kDim>
__device__ __forceinline__ void exponentiate(float (&score)[8][4], ColumnSums<kDim>& sums,
                                             uint32_t (&probs)[4][4], bool has_sums = true) {
  float rescale[2];
  exponentiate_scores<2>(score, sums, probs, rescale);
  if (!has_sums) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) rescale_sums<kDim>(sums.out, i, rescale[i]);
}

// Starts the products of a warpgroup's columns and 32 or 64 keys. `queries` and `keys` lie in
// shared memory, with their panels of 64 dimensions `query_panel` and `key_panel` bytes apart.
template <int kDim, int kEights>
__device__ __forceinline__ void request_scores(float (&score)[kEights][4], uint32_t queries,
                                               int query_panel, uint32_t keys, int key_panel) {
  const uint64_t first_q = wgmma_descriptor<64>(wgmma_uniform(queries));
  const uint64_t first_k = wgmma_descriptor<64>(wgmma_uniform(keys));
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    const uint64_t q = wgmma_advance(first_q, (s / 4) * query_panel + (s % 4) * 32);
    const uint64_t k = wgmma_advance(first_k, (s / 4) * key_panel + (s % 4) * 32);
    if (s == 0) {
      wgmma_scores<false>(score, q, k);
    } else {
      wgmma_scores<true>(score, q, k);
    }
  }
}

// Computes the products of a warpgroup's columns and a tile of keys.
template <int kDim>
__device__ __forceinline__ void score_tile(float (&score)[8][4], uint32_t queries, int query_panel,
                                           uint32_t keys) {
  wgmma_fence();
  request_scores<kDim>(score, queries, query_panel, keys, kPanelBytes);
  wgmma_commit();
  wgmma_wait(score);
}

template <int kDim>
__device__ __forceinline__ void add_tile(ColumnSums<kDim>& sums, const uint32_t (&probs)[4][4],
                                         uint32_t values) {
  const uint64_t first = wgmma_values(wgmma_uniform(values));
  wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    wgmma_add_values(sums.out, probs[c], wgmma_advance(first, c * 16 * kPanelRowBytes));
  }
  wgmma_commit();
  wgmma_wait(sums.out);
}

#endif

}  // namespace forerun::cuda
