// Sums of the activations of each group of inputs that share a minimum, which are operands of the
// products with minima (linear/cuda/grouped_operands.h): 128 inputs have a sum for each of up to 8
// groups, so their minima take one product a fragment. Device code; only the
// kernels include it.
//
// A sum is two f16, its rounded value and what that lacks, which have 22 bits together. Magnitudes
// beyond 65,504 are clamped to it, like those of activations. As operand B of mma.m16n8k16, a lane
// has, of row lane / 4 and groups 2t and 2t + 1, t = lane % 4, the rounded values in its first and
// what they lack in its second register. In memory: [128 inputs][8 rows][row][two groups] pairs of
// registers.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/grouped_operands.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t clamped_halves(float low, float high) {
  const auto clamped = [](float v) { return fminf(fmaxf(v, -65504.0f), 65504.0f); };
  const __half2 pair = __floats2half2_rn(clamped(low), clamped(high));
  return reinterpret_cast<const uint32_t&>(pair);
}

// Sums of the activations of 8 rows and 128 inputs, of which kGroupSteps * 16 inputs are a group.
// The order in which a group's are added depends on nothing else: products with zeros change none.
// With kTwoChains two chains of products take the place of one (q4_k: 3% faster at 8 rows; q4_1
// would be 30% slower at one row).
template <int kGroupSteps, bool kTwoChains = false>
struct GroupSums {
  // [0] and [1]: those of group lane / 4, rows 2t and 2t + 1. With two chains, the groups
  // of the first 64 inputs have their sums in `first`, the others in `second`, and zeros in the
  // other one.
  float first[4] = {}, second[4] = {};

  // `b0`, `b1`: the activations of 16 inputs, step `step` of 8, as operand B.
  __device__ __forceinline__ void add(int step, int lane, uint32_t b0, uint32_t b1) {
    const uint32_t ones = lane / 4 == step / kGroupSteps ? 0x3c003c00u : 0u;
    const uint32_t a[4] = {ones, 0, ones, 0};
    mma_f16(kTwoChains && step >= 4 ? second : first, a, b0, b1);
  }
  __device__ __forceinline__ uint2 operand() const {
    const float low = kTwoChains ? first[0] + second[0] : first[0];
    const float high = kTwoChains ? first[1] + second[1] : first[1];
    const uint32_t rounded = clamped_halves(low, high);
    const float2 wide = widen_halves(rounded);
    const uint32_t lacks = clamped_halves(low - wide.x, high - wide.y);
    return make_uint2(movmatrix_trans(rounded), movmatrix_trans(lacks));
  }
};

#endif

}  // namespace forerun::cuda
