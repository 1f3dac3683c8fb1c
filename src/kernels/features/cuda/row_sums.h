// Device code for kernels with one block per row: rows of bf16 in vectors of 8, and sums over the
// block.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

inline constexpr int kRowThreads = 256;
// Bytes of dynamic shared memory that sum_over_row() uses.
inline constexpr int kRowSumBytes = kRowThreads / 32 * 4;

// Eight adjacent values of a row as f32.
struct RowVector {
  float values[8];

  __device__ __forceinline__ float squares() const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = __fmaf_rn(values[i], values[i], sum);
    return sum;
  }
  // Returns each value times `scale` times the weight of its column.
  __device__ __forceinline__ RowVector normed(float scale, const float* weights) const {
    RowVector out;
#pragma unroll
    for (int i = 0; i < 8; ++i) out.values[i] = values[i] * scale * weights[i];
    return out;
  }
  __device__ __forceinline__ uint4 packed(ActivationFormat format) const {
    return make_uint4(pack_activations(format, values[0], values[1]),
                      pack_activations(format, values[2], values[3]),
                      pack_activations(format, values[4], values[5]),
                      pack_activations(format, values[6], values[7]));
  }
};

__device__ __forceinline__ RowVector widen(uint4 x) {
  const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
  RowVector out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.values[2 * i] = __uint_as_float(pairs[i] << 16);
    out.values[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
  }
  return out;
}

// Returns the sum of all threads' values, in a fixed order. All threads of a block of kRowThreads
// call it.
__device__ __forceinline__ float sum_over_row(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  const uint32_t sums = dynamic_shared_address();
  __syncthreads();  // all threads have read the previous sums
  if (threadIdx.x % 32 == 0) store_shared_4(sums + threadIdx.x / 32 * 4, __float_as_uint(value));
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kRowThreads / 32; ++warp) {
    sum += __uint_as_float(load_shared_4(sums + warp * 4));
  }
  return sum;
}

// Returns the factor of RMSNorm for a row of `width` values with this sum of squares.
__device__ __forceinline__ float inverse_rms(float squares, int64_t width, float eps) {
  return rsqrtf(squares / static_cast<float>(width) + eps);
}

}  // namespace forerun::cuda
