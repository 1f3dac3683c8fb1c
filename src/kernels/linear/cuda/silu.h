// silu(gate) * up as gated layers end in it: the bits of gate / (1 + __expf(-gate)) * up. Device
// code.
#pragma once

#include <cmath>

#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// a / b of b >= 1, rounded to nearest, where fits_divide_fast(a, b): an estimate of 1 / b, refined
// by one Newton step, and the quotient corrected by what it leaves.
__device__ __forceinline__ float divide_fast(float a, float b) {
  const float estimate = estimate_inverse(b);
  const float inverse = __fmaf_rn(estimate, __fmaf_rn(-b, estimate, 1.0f), estimate);
  const float quotient = __fmul_rn(inverse, a);
  const float exact = __fmaf_rn(inverse, __fmaf_rn(-b, quotient, a), quotient);
  return copysignf(exact, a);  // the correction makes +0 of -0
}
// Whether nothing on the way to the quotient comes near the ends of f32's range, or `a` is 0.
__device__ __forceinline__ bool fits_divide_fast(float a, float b) {
  return ((fabsf(a) >= 0x1p-60f && fabsf(a) <= 0x1p60f) || a == 0.0f) && b <= 0x1p60f;
}

// Of four values, whose divisions are all under way at once: the compiler's own division asks of
// each whether it needs special care, and waits for it.
__device__ __forceinline__ float4 silu_times(const float4& gate, const float4& up) {
  const float x[4] = {gate.x, gate.y, gate.z, gate.w};
  float divisor[4], y[4];
  bool special = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    divisor[i] = 1.0f + __expf(-x[i]);
    y[i] = divide_fast(x[i], divisor[i]);
    special |= !fits_divide_fast(x[i], divisor[i]);
  }
  if (special) {
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] = x[i] / divisor[i];
  }
  return make_float4(y[0] * up.x, y[1] * up.y, y[2] * up.z, y[3] * up.w);
}

}  // namespace forerun::cuda
