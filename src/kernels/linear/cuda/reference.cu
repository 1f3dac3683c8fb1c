// Reference implementations of linear layers: plain loops in double over the source tensors of the
// weights.
#include <cuda_bf16.h>

#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/pack.h"

namespace forerun::cuda {
namespace {

__global__ void linear_awq_ref_kernel(const uint32_t* qweight, const uint32_t* qzeros,
                                      const __half* scales, int64_t in_features, int64_t outputs,
                                      const uint16_t* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    const int64_t group = k / kInt4Group;
    const int q = static_cast<int>(awq_nibble(qweight, k, outputs, output));
    const int zero = static_cast<int>(awq_nibble(qzeros, group, outputs, output));
    const double scale = __half2float(scales[group * outputs + output]);
    const double x = __half2float(__ushort_as_half(input[row * in_features + k])) / kF16Scale;
    sum += (q - zero) * scale * x;
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

__global__ void linear_bf16_ref_kernel(const __nv_bfloat16* weight, int64_t in_features,
                                       int64_t outputs, const uint16_t* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    sum += static_cast<double>(__bfloat162float(weight[output * in_features + k])) *
           __bfloat162float(__ushort_as_bfloat16(input[row * in_features + k]));
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

__global__ void linear_f32_ref_kernel(const float* weight, int64_t in_features, int64_t outputs,
                                      const uint16_t* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    const double x = __half2float(__ushort_as_half(input[row * in_features + k])) / kF16Scale;
    sum += weight[output * in_features + k] * x;
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

__global__ void linear_int8_ref_kernel(const __nv_bfloat16* weight, int64_t in_features,
                                       int64_t outputs, const uint16_t* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  const __nv_bfloat16* const weights = weight + output * in_features;
  const uint16_t* const inputs = input + row * in_features;
  double sum = 0;
  for (int64_t group = 0; group < in_features; group += kInt8Group) {
    float max_abs = 0;
    for (int64_t k = group; k < group + kInt8Group; ++k) {
      max_abs = fmaxf(max_abs, fabsf(__bfloat162float(weights[k])));
    }
    const __half scale = int8_scale(max_abs);
    double products = 0;
    for (int64_t k = group; k < group + kInt8Group; ++k) {
      const double x = __half2float(__ushort_as_half(inputs[k])) / kF16Scale;
      products += rounded_to_int8(__bfloat162float(weights[k]), scale) * x;
    }
    sum += products * static_cast<double>(__half2float(scale));
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

}  // namespace

Status linear_awq_ref_cuda(const uint32_t* qweight, const uint32_t* qzeros, const __half* scales,
                           int64_t in_features, int64_t outputs, const uint16_t* input, int rows,
                           float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  return launch(linear_awq_ref_kernel, grid, kPackThreads, stream, "running the int4 reference",
                qweight, qzeros, scales, in_features, outputs, input, output);
}

Status linear_bf16_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const uint16_t* input, int rows, float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  return launch(linear_bf16_ref_kernel, grid, kPackThreads, stream, "running the bf16 reference",
                weight, in_features, outputs, input, output);
}

Status linear_f32_ref_cuda(const float* weight, int64_t in_features, int64_t outputs,
                           const uint16_t* input, int rows, float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  return launch(linear_f32_ref_kernel, grid, kPackThreads, stream, "running the f32 reference",
                weight, in_features, outputs, input, output);
}

Status linear_int8_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const uint16_t* input, int rows, float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  return launch(linear_int8_ref_kernel, grid, kPackThreads, stream, "running the int8 reference",
                weight, in_features, outputs, input, output);
}

}  // namespace forerun::cuda
