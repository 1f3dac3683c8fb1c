// Packs AutoAWQ and bf16 weights into units, on the device.
#include <cuda_bf16.h>

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/pack.h"

namespace forerun::cuda {
namespace {

// A source of a pack kernel: AutoAWQ's tensors.
struct AwqSource {
  const uint32_t *qweight, *qzeros;
  const __half* scales;
  int64_t outputs;

  __device__ __forceinline__ uint32_t nibble(int64_t unit, int input, int64_t output) const {
    return awq_nibble(qweight, unit * 128 + input, outputs, output);
  }
  __device__ __forceinline__ uint32_t zero(int64_t unit, int64_t output) const {
    return awq_nibble(qzeros, unit, outputs, output);
  }
  __device__ __forceinline__ __half scale(int64_t unit, int64_t output) const {
    return scales[unit * outputs + output];
  }
};

__global__ void pack_awq_kernel(AwqSource source, PackTarget target) {
  const PackVector vector(target, kUnitBytes<LinearFormat::kInt4Group128>);
  if (vector.is_in_source) pack_int4(source, target, vector);
}

__global__ void pack_bf16_kernel(const __nv_bfloat16* weight, PackTarget target) {
  const PackVector vector(target, kUnitBytes<LinearFormat::kBf16>);
  if (!vector.is_in_source) return;
  __nv_bfloat16* const values = vector.data<__nv_bfloat16>();
  for (int i = 0; i < 4; ++i) {
    const int64_t output =
        source_output(target.placement, vector.tile, vector.half, vector.lane / 4, i % 2);
    for (int pair = 0; pair < 2; ++pair) {
      const int64_t input =
          vector.unit * 32 + vector.quarter * 16 + i / 2 * 8 + vector.lane % 4 * 2 + pair;
      values[i * 2 + pair] = output < target.outputs
                                 ? weight[output * target.unit_count * 32 + input]
                                 : __float2bfloat16(0.0f);
    }
  }
}

}  // namespace

Result<LinearWeightCuda> LinearWeightCuda::allocate(const LinearPlan& plan) {
  LinearWeightCuda weight;
  weight.plan_ = plan;
  FORERUN_ASSIGN_OR_RETURN(
      weight.data_, DeviceBuffer::allocate(plan.weight_bytes(), "the weight of a linear layer"));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(weight.data_.data(), 0, plan.weight_bytes()),
                               "clearing the weight of a linear layer");
  // The kernels that use it next run in streams that do not wait for the default stream.
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr),
                               "clearing the weight of a linear layer");
  return Result<LinearWeightCuda>(std::move(weight));
}

Status LinearWeightCuda::check_pack(LinearFormat format, int64_t outputs, OutputPlacement placement,
                                    int64_t first_output) const {
  const bool plain = placement == OutputPlacement::kPlain;
  const int64_t step = plain ? kTileOutputs : kTileOutputs / 2;
  const int64_t tiles = (outputs + step - 1) / step;
  const char* wrong = nullptr;
  if (plan_.format != format) wrong = "the weight was planned for another format";
  if (first_output % kTileOutputs != 0 || first_output < 0 || (!plain && first_output != 0)) {
    wrong = "first_output must be a multiple of 32, and 0 for gate and up";
  }
  if (outputs < 1 || (!plain && outputs % 16 != 0)) {
    wrong = "outputs must be at least 1, and a multiple of 16 for gate and up";
  }
  if (first_output / kTileOutputs + tiles > plan_.tiles)
    wrong = "the source does not fit in the weight";
  if (wrong == nullptr) return {};
  return {StatusCode::kInvalidArgument, "packing " + std::to_string(outputs) +
                                            " outputs from output " + std::to_string(first_output) +
                                            ": " + wrong};
}

Status LinearWeightCuda::pack_awq(const uint32_t* qweight, const uint32_t* qzeros,
                                  const __half* scales, int64_t outputs, OutputPlacement placement,
                                  int64_t first_output, cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(
      check_pack(LinearFormat::kInt4Group128, outputs, placement, first_output));
  if (outputs % 8 != 0) {
    return {StatusCode::kInvalidArgument, "packing " + std::to_string(outputs) +
                                              " outputs: AutoAWQ's words hold 8, so outputs must "
                                              "be a multiple of 8"};
  }
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  return launch(pack_awq_kernel, pack_blocks(target), kPackThreads, stream,
                "packing an int4 weight", AwqSource{qweight, qzeros, scales, outputs}, target);
}

Status LinearWeightCuda::pack_bf16(const __nv_bfloat16* weight, int64_t outputs,
                                   OutputPlacement placement, int64_t first_output,
                                   cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kBf16, outputs, placement, first_output));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  return launch(pack_bf16_kernel, pack_blocks(target), kPackThreads, stream,
                "packing a bf16 weight", weight, target);
}

}  // namespace forerun::cuda
