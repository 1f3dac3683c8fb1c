// One row of attention: its running softmax for 8 heads, the scores of 16 keys and the weighted
// sums of their values on the tensor cores. `max_score`, `exp_sum` and `rescale` are m, l and alpha
// in the literature. Device code; only the attention kernels include it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kChunks = kTilePositions / kChunk;
constexpr float kMinusInfinity = -INFINITY;

// One row's running softmax for 8 heads: a lane holds dimensions g, g + 8 of every 16 and heads 2t,
// 2t + 1 (g = lane / 4, t = lane % 4).
template <int kDim>
struct RowSum {
  float out[kDim / 16][4];
  float max_score[2];
  float exp_sum[2];  // over the lane's own keys until reduce_lanes(), then over all

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kDim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[m][i] = 0.0f;
    }
    max_score[0] = max_score[1] = kMinusInfinity;
    exp_sum[0] = exp_sum[1] = 0.0f;
  }
  __device__ __forceinline__ void reduce_lanes() {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        exp_sum[i] = __fadd_rn(exp_sum[i], __shfl_xor_sync(~0u, exp_sum[i], lanes));
      }
    }
  }
};

// Returns the value to subtract from scores: the largest score, or 0 while there was no visible
// key.
__device__ __forceinline__ float softmax_base(float max_score) {
  return max_score == kMinusInfinity ? 0.0f : max_score;
}

// Returns the factors that scale two sums to their common maximum. Merging with an empty sum
// changes no bit of the other.
__device__ __forceinline__ float2 merge_factors(float max_score, float other_max_score) {
  const float top = softmax_base(fmaxf(max_score, other_max_score));
  return make_float2(exp2_approx(max_score - top), exp2_approx(other_max_score - top));
}
__device__ __forceinline__ float merged(float value, float other, float2 factors) {
  return __fmaf_rn(other, factors.y, __fmul_rn(value, factors.x));
}

// Merges a row's next span into the sum of those before it.
template <int kDim>
__device__ __forceinline__ void merge(RowSum<kDim>& sum, const RowSum<kDim>& next) {
  float2 factors[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    factors[i] = merge_factors(sum.max_score[i], next.max_score[i]);
    sum.max_score[i] = fmaxf(sum.max_score[i], next.max_score[i]);
    sum.exp_sum[i] = merged(sum.exp_sum[i], next.exp_sum[i], factors[i]);
  }
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum.out[m][i] = merged(sum.out[m][i], next.out[m][i], factors[i & 1]);
  }
}

// The row that a warp works on.
template <int kDim>
struct RowTask {
  uint32_t q[kDim / 16][2];  // the lane's queries: head g, dimensions 2t, 2t + 1 (+ 8) of every 16
  AttentionRowCuda row;
  const int32_t* table;
  const int32_t* ancestors;

  // Returns the physical slot of a visible position.
  __device__ __forceinline__ int slot(int position) const {
    if (position >= row.boundary) return ancestors[position - row.boundary];
    return table[position / kTilePositions] * kTilePositions + position % kTilePositions;
  }
};

// Computes the scores of 16 keys for 8 heads. `keys(s)` returns a lane's part of the first operand
// for the s-th 16 dimensions.
template <int kDim, class Keys>
__device__ __forceinline__ void score_chunk(const RowTask<kDim>& task, const Keys& keys,
                                            float (&score)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) score[i] = 0.0f;
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    const uint4 v = keys(s);
    mma_bf16(score, {v.x, v.y, v.z, v.w}, task.q[s][0], task.q[s][1]);
  }
}

// Return the key of a chunk whose row address a lane supplies to ldmatrix, and the one of the two
// 16-byte pieces of 16 dimensions that it supplies.
__device__ __forceinline__ int score_key(int lane) { return lane & 15; }
__device__ __forceinline__ int score_piece(int lane) { return lane >> 4; }

// Returns the key of a chunk whose row of values a lane addresses in add_chunk().
__device__ __forceinline__ int value_key(int lane) { return (lane & 7) + (lane >> 4) * 8; }

// Adds the values of 16 keys, weighted by their probabilities. `row` is the shared-memory address
// of the values of value_key(lane), which are row `slot` of panels of `rows` rows.
template <int kDim>
__device__ __forceinline__ void add_chunk(RowSum<kDim>& sum, const float (&probs)[4], uint32_t row,
                                          int slot, int rows, int lane) {
  const uint32_t b0 = movmatrix_trans(pack_bf16x2(probs[0], probs[1]));
  const uint32_t b1 = movmatrix_trans(pack_bf16x2(probs[2], probs[3]));
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const int piece = 2 * m + ((lane >> 3) & 1);
    uint32_t a[4];
    ldmatrix_x4_trans(a, row + kv_piece(piece, slot, rows));
    mma_bf16(sum.out[m], a, b0, b1);
  }
}

#endif

}  // namespace forerun::cuda
