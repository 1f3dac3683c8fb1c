// silu(gate) * up, the epilogue of gated layers, with the same bits as gate / (1 + __expf(-gate)) *
// up. Device code.
#pragma once

#include "kernels/cuda/divide.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

__device__ __forceinline__ float4 silu_times(const float4& gate, const float4& up) {
  float y[4] = {gate.x, gate.y, gate.z, gate.w};
  float divisor[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) divisor[i] = 1.0f + __expf(-y[i]);
  divide_all(y, divisor);
  return make_float4(y[0] * up.x, y[1] * up.y, y[2] * up.z, y[3] * up.w);
}

}  // namespace forerun::cuda
