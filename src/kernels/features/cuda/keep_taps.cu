// Copies taps, which takes at least one trip to memory. The kernel lies between two layers, so its
// blocks are few and small: the next layer's blocks begin beside them.
#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/features/cuda/keep_taps.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;

// Each block takes a row with taps.
__global__ void __launch_bounds__(kThreads)
    keep_taps_kernel(const __grid_constant__ KeepTapsCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
  wait_for_previous_kernel();
#endif
  const auto word = [&call](int32_t offset) {
    return *reinterpret_cast<const int32_t*>(call.step + offset);
  };
  if (static_cast<int32_t>(blockIdx.x) >= word(call.count_offset)) return;
  const auto* const taps =
      reinterpret_cast<const TapPlaceCuda*>(call.step + word(call.taps_offset_offset));
  const TapPlaceCuda tap = taps[blockIdx.x];
  const auto* const from =
      reinterpret_cast<const uint4*>(call.hidden + tap.row * call.hidden_stride);
  auto* const to = reinterpret_cast<uint4*>(call.store + tap.place * call.store_stride);
  for (int64_t i = threadIdx.x; i < call.dim / 8; i += kThreads) to[i] = from[i];
}

}  // namespace

Status prepare_keep_taps_cuda() {
  return prefer_shared_memory(keep_taps_kernel, "loading the kernel that keeps taps");
}

Status keep_taps_cuda(const KeepTapsCallCuda& call, cudaStream_t stream) {
  const bool fits = call.rows > 0 && call.dim > 0 && call.dim % 8 == 0 &&
                    call.hidden_stride >= call.dim && call.hidden_stride % 8 == 0 &&
                    call.store_stride >= call.dim && call.store_stride % 8 == 0;
  if (!fits || call.step == nullptr || call.hidden == nullptr || call.store == nullptr) {
    return {StatusCode::kInvalidArgument,
            "keeping taps on a GPU: " + std::to_string(call.rows) + " rows of " +
                std::to_string(call.dim) +
                "; accepted: at least 1 row, a dim and strides that are multiples of 8, strides "
                "that hold a row, and all pointers"};
  }
  return launch_dependent(keep_taps_kernel, dim3(static_cast<unsigned>(call.rows)), dim3(kThreads),
                          0, stream, "keeping taps", call);
}

}  // namespace forerun::cuda
