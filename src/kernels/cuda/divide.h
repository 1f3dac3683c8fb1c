// Division with the bits of the compiler's own, of several quotients at once: the compiler asks of
// each by itself whether it needs special care, and waits for it. Device code.
#pragma once

#include <cmath>

#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// a / b of b >= 1, rounded to nearest, where can_divide_by_estimate(a, b): an estimate of 1 / b,
// refined by one Newton step, and the quotient corrected by what it leaves.
__device__ __forceinline__ float divide_by_estimate(float a, float b) {
  const float estimate = estimate_inverse(b);
  const float inverse = __fmaf_rn(estimate, __fmaf_rn(-b, estimate, 1.0f), estimate);
  const float quotient = __fmul_rn(inverse, a);
  const float exact = __fmaf_rn(inverse, __fmaf_rn(-b, quotient, a), quotient);
  return copysignf(exact, a);  // the correction makes +0 of -0
}
// Whether nothing on the way to the quotient comes near the ends of f32's range, or `a` is 0.
__device__ __forceinline__ bool can_divide_by_estimate(float a, float b) {
  return ((fabsf(a) >= 0x1p-60f && fabsf(a) <= 0x1p60f) || a == 0.0f) && b <= 0x1p60f;
}

// a[i] / b[i] in the place of a[i], b[i] >= 1. Special care, if any needs it, is asked for once.
template <int kCount>
__device__ __forceinline__ void divide_all(float (&a)[kCount], const float (&b)[kCount]) {
  float quotient[kCount];
  bool special = false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    quotient[i] = divide_by_estimate(a[i], b[i]);
    special |= !can_divide_by_estimate(a[i], b[i]);
  }
  if (special) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) quotient[i] = __fdiv_rn(a[i], b[i]);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) a[i] = quotient[i];
}
template <int kCount>
__device__ __forceinline__ void divide_all(float (&a)[kCount], float by) {
  float b[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) b[i] = by;
  divide_all(a, b);
}

}  // namespace forerun::cuda
