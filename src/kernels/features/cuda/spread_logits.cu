#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/features/cuda/spread_logits.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTokensOfThread = 4;
constexpr int kTokensOfBlock = kThreads * kTokensOfThread;

// Blocks are numbered by parts of the vocabulary, then by rows.
__global__ void __launch_bounds__(kThreads)
    spread_logits_kernel(const __grid_constant__ SpreadLogitsCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
#endif
  // Columns never change, so the kernel reads them while the head still runs.
  const int32_t first =
      static_cast<int32_t>(blockIdx.x) * kTokensOfBlock + static_cast<int32_t>(threadIdx.x);
  int32_t columns[kTokensOfThread];
#pragma unroll
  for (int i = 0; i < kTokensOfThread; ++i) {
    const int32_t token = first + i * kThreads;
    columns[i] = token < call.tokens ? call.column_of[token] : -1;
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  wait_for_previous_kernel();
#endif
  const float* const from = call.drafts + blockIdx.y * call.drafts_stride;
  float* const to = call.logits + blockIdx.y * call.logits_stride;
#pragma unroll
  for (int i = 0; i < kTokensOfThread; ++i) {
    const int32_t token = first + i * kThreads;
    if (token < call.tokens) {
      to[token] = columns[i] < 0 ? __uint_as_float(0xff800000u) : from[columns[i]];
    }
  }
}

}  // namespace

Status prepare_spread_logits_cuda() {
  return prefer_shared_memory(spread_logits_kernel, "loading the kernel that spreads logits");
}

Status spread_logits_cuda(const SpreadLogitsCallCuda& call, cudaStream_t stream) {
  if (call.rows < 1 || call.tokens < 1 || call.logits_stride < call.tokens ||
      call.drafts == nullptr || call.column_of == nullptr || call.logits == nullptr) {
    return {StatusCode::kInvalidArgument,
            "spreading logits on a GPU: " + std::to_string(call.rows) + " rows of " +
                std::to_string(call.tokens) + " tokens in " + std::to_string(call.logits_stride) +
                "; accepted: at least 1 row and 1 token, a stride that holds a row, and all "
                "pointers"};
  }
  const dim3 grid(static_cast<unsigned>((call.tokens + kTokensOfBlock - 1) / kTokensOfBlock),
                  static_cast<unsigned>(call.rows));
  return launch_dependent(spread_logits_kernel, grid, dim3(kThreads), 0, stream, "spreading logits",
                          call);
}

}  // namespace forerun::cuda
