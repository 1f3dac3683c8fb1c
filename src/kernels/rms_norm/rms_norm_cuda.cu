// Floor: the latency of two trips through the L2. A block a row. 8,192 registers a block, so that
// it finds room beside the blocks of two linear layers (linear_cuda.cu).
#include <cuda_bf16.h>

#include <string>

#include "device/cuda/cuda_error.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ float2 unpack(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

__device__ __forceinline__ float squares(uint4 v, float sum) {
  const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = unpack(pairs[i]);
    sum = __fmaf_rn(f.x, f.x, sum);
    sum = __fmaf_rn(f.y, f.y, sum);
  }
  return sum;
}

__device__ __forceinline__ uint4 scaled(uint4 v, float scale, const float* weight) {
  const float4 low = *reinterpret_cast<const float4*>(weight);
  const float4 high = *reinterpret_cast<const float4*>(weight + 4);
  const float2 a = unpack(v.x), b = unpack(v.y), c = unpack(v.z), d = unpack(v.w);
  return make_uint4(pack_bf16x2(a.x * scale * low.x, a.y * scale * low.y),
                    pack_bf16x2(b.x * scale * low.z, b.y * scale * low.w),
                    pack_bf16x2(c.x * scale * high.x, c.y * scale * high.y),
                    pack_bf16x2(d.x * scale * high.z, d.y * scale * high.w));
}

__global__ void __maxnreg__(32) rms_norm_kernel(RmsNormCall call) {
  __shared__ float warp_sums[kThreads / 32];
  launch_dependents();
  const int64_t row = blockIdx.x;
  wait_for_previous_kernel();
  const int64_t from = call.row_index == nullptr ? row : call.row_index[row];
  const auto* const x = reinterpret_cast<const uint4*>(call.input + from * call.dim);
  auto* const y = reinterpret_cast<uint4*>(call.output + row * call.dim);
  const int vectors = static_cast<int>(call.dim / 8);
  float sum = 0.0f;
#pragma unroll 4
  for (int at = threadIdx.x; at < vectors; at += kThreads) sum = squares(x[at], sum);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, lanes));
  }
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) sum = __fadd_rn(sum, warp_sums[i]);
  const float scale = rsqrtf(sum / static_cast<float>(call.dim) + call.eps);
  for (int at = threadIdx.x; at < vectors; at += kThreads) {
    y[at] = scaled(x[at], scale, call.weight + at * 8);
  }
}

#else

__global__ void rms_norm_kernel(RmsNormCall) {}

#endif

}  // namespace

Status prepare_rms_norm_cuda() {
  return prefer_shared_memory(rms_norm_kernel, "loading the normalization");
}

Status rms_norm_cuda(const RmsNormCall& call, cudaStream_t stream) {
  if (call.rows < 1 || call.dim < 8 || call.dim % 8 != 0) {
    return {StatusCode::kInvalidArgument, "normalization on a GPU: " + std::to_string(call.rows) +
                                              " rows of " + std::to_string(call.dim) +
                                              "; at least one row of a multiple of 8 is accepted"};
  }
  return launch_dependent(rms_norm_kernel, dim3(static_cast<unsigned>(call.rows)), dim3(kThreads),
                          0, stream, "launching a normalization", call);
}

}  // namespace forerun::cuda
