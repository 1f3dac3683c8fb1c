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

// Within 2e-3 of gumbel_noise(bits), by the hardware's logarithms and without a branch: -log(u) by
// its series where u is near 1.
__device__ __forceinline__ float gumbel_guess(uint32_t bits) {
  const float u = (static_cast<float>(bits >> 8) + 0.5f) * 0x1p-24f;
  const float depth = static_cast<float>(((1u << 25) - 1u) - ((bits >> 8) << 1)) * 0x1p-25f;
  const float series =
      depth * (1.0f + depth * (0.5f + depth * (1.0f / 3.0f + depth * (0.25f + depth * 0.2f))));
  return -__logf(u < 0.75f ? -__logf(u) : series);
}

// At least gumbel_noise(bits), at most 0.1 more where it is near its largest: as gumbel_bound()
// (base/noise.h), with conversions that are no work for the slow units. 1 - u is cut to 23 bits,
// its bits to 23 above those of a float's integers.
__device__ __forceinline__ float noise_bound(uint32_t bits) {
  const float depth = (2.0f - 0x1p-23f) - __uint_as_float(bits >> 9 | 0x3f800000u);
  const float as_integer = __uint_as_float(__float_as_uint(depth) >> 7 | 0x4b000000u);  // + 2^23
  // 127 ln 2 - bits * ln 2 / 2^23, the bits in units of 2^7 and 2^23 above.
  constexpr float kSlope = 128.0f * 8.26295829e-8f;
  return __fmaf_rn(as_integer, -kSlope, (88.029692f + 1e-3f) + 0x1p23f * kSlope);
}

}  // namespace forerun::cuda
