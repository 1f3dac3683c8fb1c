// Gumbel noise (base/noise.h) as a GPU estimates it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace forerun::cuda {

// Within 1e-5 of gumbel_noise(bits), by logarithms in f32. Both u and 1 - u are odd multiples of
// 2^-25; the smaller one has its exact float.
__device__ __forceinline__ float gumbel_estimate(uint32_t bits) {
  const uint32_t doubled = ((bits >> 8) << 1) + 1;  // u * 2^25
  const float w = doubled < (1u << 24)
                      ? -logf(static_cast<float>(doubled) * 0x1p-25f)
                      : -log1pf(static_cast<float>((1u << 25) - doubled) * -0x1p-25f);
  return -logf(w);
}

}  // namespace forerun::cuda
