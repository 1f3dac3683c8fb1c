#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/features/cuda/gather_taps.h"
#include "kernels/features/cuda/row_features.h"
#include "kernels/features/cuda/row_sums.h"

namespace forerun::cuda {
namespace {

// Each block takes a row.
__global__ void __launch_bounds__(kRowThreads)
    gather_taps_kernel(const __grid_constant__ GatherTapsCallCuda call) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
  wait_for_previous_kernel();
#endif
  const int32_t offset = *reinterpret_cast<const int32_t*>(call.step + call.features_offset_offset);
  const RowFeatureCuda feature =
      reinterpret_cast<const RowFeatureCuda*>(call.step + offset)[blockIdx.x];
  if (feature.source != RowFeatureCuda::kTarget) return;
  const auto* const from = reinterpret_cast<const uint4*>(call.store + feature.place * call.width);
  auto* const to = reinterpret_cast<uint4*>(call.output + blockIdx.x * call.output_stride);
  const bool has_norms = call.norms != nullptr;
  const int64_t span = (has_norms ? call.norm_width : call.width) / 8;
  for (int64_t begin = 0; begin < call.width / 8; begin += span) {
    float scale = 1;
    if (has_norms) {
      float squares = 0;
      for (int64_t i = threadIdx.x; i < span; i += kRowThreads) {
        squares += widen(from[begin + i]).squares();
      }
      scale = inverse_rms(sum_over_row(squares), call.norm_width, call.eps);
    }
    for (int64_t i = threadIdx.x; i < span; i += kRowThreads) {
      const RowVector x = widen(from[begin + i]);
      to[begin + i] =
          (has_norms ? x.normed(scale, call.norms + (begin + i) * 8) : x).packed(call.format);
    }
  }
}

}  // namespace

Status prepare_gather_taps_cuda() {
  return prefer_shared_memory(gather_taps_kernel, "loading the kernel that gathers taps");
}

Status gather_taps_cuda(const GatherTapsCallCuda& call, cudaStream_t stream) {
  const bool fits = call.rows > 0 && call.width > 0 && call.width % 8 == 0 &&
                    call.output_stride >= call.width && call.output_stride % 8 == 0 &&
                    (call.norms == nullptr || (call.norm_width > 0 && call.norm_width % 8 == 0 &&
                                               call.width % call.norm_width == 0));
  if (!fits || call.step == nullptr || call.store == nullptr || call.output == nullptr) {
    return {StatusCode::kInvalidArgument,
            "gathering taps on a GPU: " + std::to_string(call.rows) + " rows of " +
                std::to_string(call.width) + " with norms over " + std::to_string(call.norm_width) +
                "; accepted: at least 1 row, widths and strides that are multiples of 8, norms "
                "that divide a row, and all pointers"};
  }
  return launch_dependent(gather_taps_kernel, dim3(static_cast<unsigned>(call.rows)),
                          dim3(kRowThreads), kRowSumBytes, stream, "gathering taps", call);
}

}  // namespace forerun::cuda
