#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/gather.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;

// Each block takes a row.
__global__ void __launch_bounds__(kThreads)
    linear_gather_kernel(const __grid_constant__ LinearGatherCall call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
  wait_for_previous_kernel();
#endif
  const auto row = static_cast<int64_t>(blockIdx.x);
  const auto from = static_cast<int64_t>(call.row_index[row]);
  const auto* const input = reinterpret_cast<const uint4*>(call.input + from * call.input_stride);
  auto* const output = reinterpret_cast<uint4*>(call.output + row * call.output_stride);
  for (int64_t i = threadIdx.x; i < call.dim / 8; i += kThreads) output[i] = input[i];
  const int64_t groups = call.dim / kNormGroup;
  for (int64_t i = threadIdx.x; i < groups; i += kThreads) {
    call.output_squares[row * groups + i] = call.squares[from * groups + i];
  }
}

}  // namespace

Status prepare_linear_gather() {
  return prefer_shared_memory(linear_gather_kernel, "loading the kernel that gathers rows");
}

Status linear_gather_cuda(const LinearGatherCall& call, cudaStream_t stream) {
  const bool fits = call.rows > 0 && call.dim > 0 && call.dim % 32 == 0 &&
                    call.input_stride >= call.dim && call.input_stride % 8 == 0 &&
                    call.output_stride >= call.dim && call.output_stride % 8 == 0;
  if (!fits || call.row_index == nullptr || call.input == nullptr || call.squares == nullptr ||
      call.output == nullptr || call.output_squares == nullptr) {
    return {StatusCode::kInvalidArgument,
            "gathering rows: rows, a dim that is a multiple of 32, strides that hold it and are "
            "multiples of 8, and all pointers are needed; rows " +
                std::to_string(call.rows) + ", dim " + std::to_string(call.dim)};
  }
  return launch_dependent(linear_gather_kernel, dim3(static_cast<unsigned>(call.rows)),
                          dim3(kThreads), 0, stream, "gathering rows", call);
}

}  // namespace forerun::cuda
