// Division of several pairs at once, with the same bits as the `/` operator. For each `/` the
// compiler emits its own check for special cases and waits for it; here all quotients share one
// check. Device code.
#pragma once

#include <cmath>

#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// Returns a / b rounded to nearest, if b >= 1 and can_divide_by_estimate(a, b). It estimates 1 / b,
// refines the estimate by one Newton step, and corrects the quotient by its remainder.
__device__ __forceinline__ float divide_by_estimate(float a, float b) {
  const float estimate = estimate_inverse(b);
  const float inverse = __fmaf_rn(estimate, __fmaf_rn(-b, estimate, 1.0f), estimate);
  const float quotient = __fmul_rn(inverse, a);
  const float exact = __fmaf_rn(inverse, __fmaf_rn(-b, quotient, a), quotient);
  return copysignf(exact, a);  // the correction turns -0 into +0
}
// Returns whether `a` is 0, or no intermediate result comes near the limits of f32's range.
__device__ __forceinline__ bool can_divide_by_estimate(float a, float b) {
  return ((fabsf(a) >= 0x1p-60f && fabsf(a) <= 0x1p60f) || a == 0.0f) && b <= 0x1p60f;
}

// Replaces a[i] by a[i] / b[i], for b[i] >= 1. If any pair is a special case, __fdiv_rn() divides
// all.
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
