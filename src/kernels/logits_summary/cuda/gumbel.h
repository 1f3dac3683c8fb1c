// Estimates of Gumbel noise (base/noise.h) on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace forerun::cuda {

// Returns a value within 1e-5 of gumbel_noise(bits), with logarithms in f32. Both u and 1 - u are
// odd multiples of 2^-25; the smaller of them is exact in f32.
__device__ __forceinline__ float gumbel_estimate(uint32_t bits) {
  const uint32_t doubled = ((bits >> 8) << 1) + 1;  // u * 2^25
  const float w = doubled < (1u << 24)
                      ? -logf(static_cast<float>(doubled) * 0x1p-25f)
                      : -log1pf(static_cast<float>((1u << 25) - doubled) * -0x1p-25f);
  return -logf(w);
}

// Returns a value within 2e-3 of gumbel_noise(bits), with hardware logarithms and without a branch.
// Near u = 1, -log(u) comes from its series.
__device__ __forceinline__ float gumbel_guess(uint32_t bits) {
  const float u = (static_cast<float>(bits >> 8) + 0.5f) * 0x1p-24f;
  const float depth = static_cast<float>(((1u << 25) - 1u) - ((bits >> 8) << 1)) * 0x1p-25f;
  const float series =
      depth * (1.0f + depth * (0.5f + depth * (1.0f / 3.0f + depth * (0.25f + depth * 0.2f))));
  return -__logf(u < 0.75f ? -__logf(u) : series);
}

// Returns an upper bound of gumbel_noise(bits), at most 0.1 above it near its maximum, like
// gumbel_bound() (base/noise.h). It converts between integers and floats by bit operations, since
// the conversion instructions are slow. 1 - u is truncated to 23 bits, and so are its bits when
// they become the mantissa of a float.
__device__ __forceinline__ float noise_bound(uint32_t bits) {
  const float depth = (2.0f - 0x1p-23f) - __uint_as_float(bits >> 9 | 0x3f800000u);
  const float as_integer = __uint_as_float(__float_as_uint(depth) >> 7 | 0x4b000000u);  // + 2^23
  // 127 ln 2 - bits * ln 2 / 2^23, where as_integer is 2^23 + bits / 2^7.
  constexpr float kSlope = 128.0f * 8.26295829e-8f;
  return __fmaf_rn(as_integer, -kSlope, (88.029692f + 1e-3f) + 0x1p23f * kSlope);
}

}  // namespace forerun::cuda
