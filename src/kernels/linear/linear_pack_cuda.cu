// Puts weights into the order of the tensor core's fragments, on the device, and the reference
// twins that read the same sources plainly.
//
// Inside a unit of 32 outputs, output f is row g = f / 4 (its lane group) of fragment half
// (f / 2) % 2, upper or lower row f % 2; so a lane ends up with four consecutive outputs. Inputs:
// of every 32, lane t of a group has inputs 8t .. 8t + 7, four a step, as one 16-byte load of the
// activations brings them.
#include <cuda_bf16.h>

#include <string>
#include <utility>

#include "device/cuda/cuda_error.h"
#include "kernels/linear/linear_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;

// Nibble of a packed word that holds column c of its eight, AutoAWQ's order.
__device__ constexpr int kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

__device__ __forceinline__ uint32_t awq_nibble(const uint32_t* packed, int64_t row, int64_t columns,
                                               int64_t column) {
  return (packed[row * (columns / 8) + column / 8] >> (4 * kNibbleOfColumn[column % 8])) & 15u;
}

// The source output that fragment row (half, group, upper) of a tile takes its weights from.
__device__ __forceinline__ int64_t source_output(OutputPlacement placement, int64_t tile, int half,
                                                 int group, int upper) {
  if (placement == OutputPlacement::kPlain) return tile * 32 + group * 4 + half * 2 + upper;
  return tile * 16 + group * 2 + upper;
}

__device__ __forceinline__ bool half_is_ours(OutputPlacement placement, int half) {
  return placement == OutputPlacement::kPlain ||
         half == (placement == OutputPlacement::kGate ? 0 : 1);
}

// One thread a 16-byte vector of a unit: 8 fragments' worth of nibbles for one lane, four steps of
// 16 inputs.
__global__ void pack_awq_kernel(const uint32_t* qweight, const uint32_t* qzeros,
                                const __half* scales, std::byte* units, int64_t first_tile,
                                int64_t tiles, int64_t unit_count, int64_t outputs,
                                OutputPlacement placement) {
  constexpr int kVectors = 128;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= tiles * unit_count * kVectors) return;
  const int vector = static_cast<int>(index % kVectors);
  const int64_t unit = index / kVectors % unit_count;
  const int64_t tile = index / kVectors / unit_count;
  const int half = vector / 64;
  const int quarter = vector / 32 % 2;
  const int lane = vector % 32;
  if (!half_is_ours(placement, half)) return;
  std::byte* const target =
      units + ((first_tile + tile) * unit_count + unit) * unit_bytes(LinearFormat::kInt4Group128);
  uint32_t words[4] = {};
  for (int c = 0; c < 4; ++c) {
    const int step = quarter * 4 + c;
    for (int i = 0; i < 4; ++i) {
      const int64_t output = source_output(placement, tile, half, lane / 4, i % 2);
      if (output >= outputs) continue;
      for (int pair = 0; pair < 2; ++pair) {
        const int64_t input =
            unit * 128 + step / 2 * 32 + lane % 4 * 8 + step % 2 * 4 + i / 2 * 2 + pair;
        words[c] |= awq_nibble(qweight, input, outputs, output) << (4 * i + 16 * pair);
      }
    }
  }
  reinterpret_cast<uint4*>(target)[vector] = make_uint4(words[0], words[1], words[2], words[3]);
  if (quarter != 0 || lane % 4 != 0) return;
  const int group = lane / 4;
  uint32_t zeros = 0;
  for (int upper = 0; upper < 2; ++upper) {
    const int64_t output = source_output(placement, tile, half, group, upper);
    const bool valid = output < outputs;
    reinterpret_cast<__half*>(target + 2048)[group * 4 + half * 2 + upper] =
        valid ? scales[unit * outputs + output] : __half(0.0f);
    if (valid) zeros |= awq_nibble(qzeros, unit, outputs, output) << (4 * upper);
  }
  reinterpret_cast<uint8_t*>(target + 2112)[group * 2 + half] = static_cast<uint8_t>(zeros);
}

__global__ void pack_bf16_kernel(const __nv_bfloat16* weight, std::byte* units, int64_t first_tile,
                                 int64_t tiles, int64_t unit_count, int64_t outputs,
                                 OutputPlacement placement) {
  constexpr int kVectors = 128;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= tiles * unit_count * kVectors) return;
  const int vector = static_cast<int>(index % kVectors);
  const int64_t unit = index / kVectors % unit_count;
  const int64_t tile = index / kVectors / unit_count;
  const int half = vector / 64;
  const int step = vector / 32 % 2;
  const int lane = vector % 32;
  if (!half_is_ours(placement, half)) return;
  __nv_bfloat16 values[8];
  for (int i = 0; i < 4; ++i) {
    const int64_t output = source_output(placement, tile, half, lane / 4, i % 2);
    for (int pair = 0; pair < 2; ++pair) {
      const int64_t input = unit * 32 + lane % 4 * 8 + step * 4 + i / 2 * 2 + pair;
      values[i * 2 + pair] =
          output < outputs ? weight[output * unit_count * 32 + input] : __float2bfloat16(0.0f);
    }
  }
  const int64_t at = ((first_tile + tile) * unit_count + unit) * kVectors + vector;
  for (int i = 0; i < 8; ++i) reinterpret_cast<__nv_bfloat16*>(units)[at * 8 + i] = values[i];
}

__global__ void linear_awq_ref_kernel(const uint32_t* qweight, const uint32_t* qzeros,
                                      const __half* scales, int64_t in_features, int64_t outputs,
                                      const __nv_bfloat16* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    const int64_t group = k / kInt4Group;
    const int q = static_cast<int>(awq_nibble(qweight, k, outputs, output));
    const int zero = static_cast<int>(awq_nibble(qzeros, group, outputs, output));
    const double scale = __half2float(scales[group * outputs + output]);
    sum += (q - zero) * scale * __bfloat162float(input[row * in_features + k]);
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

__global__ void linear_bf16_ref_kernel(const __nv_bfloat16* weight, int64_t in_features,
                                       int64_t outputs, const __nv_bfloat16* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    sum += static_cast<double>(__bfloat162float(weight[output * in_features + k])) *
           __bfloat162float(input[row * in_features + k]);
  }
  result[row * outputs + output] = static_cast<float>(sum);
}

int64_t blocks_for(int64_t threads) { return (threads + kThreads - 1) / kThreads; }

}  // namespace

Result<LinearWeightCuda> LinearWeightCuda::allocate(const LinearPlan& plan) {
  LinearWeightCuda weight;
  weight.plan_ = plan;
  FORERUN_ASSIGN_OR_RETURN(
      weight.data_, DeviceBuffer::allocate(plan.weight_bytes(), "the weight of a linear layer"));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(weight.data_.data(), 0, plan.weight_bytes()),
                               "clearing the weight of a linear layer");
  // Streams that do not wait for the default one pack it next.
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
  if (outputs < 1 || (format == LinearFormat::kInt4Group128 && outputs % 8 != 0) ||
      (!plain && outputs % 16 != 0)) {
    wrong = "outputs must be a multiple of 8 for int4 and of 16 for gate and up";
  }
  if (first_output / kTileOutputs + tiles > plan_.tiles) wrong = "it does not fit in the weight";
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
  const int64_t step = placement == OutputPlacement::kPlain ? 32 : 16;
  const int64_t tiles = (outputs + step - 1) / step;
  pack_awq_kernel<<<static_cast<unsigned>(blocks_for(tiles * plan_.units * 128)), kThreads, 0,
                    stream>>>(qweight, qzeros, scales, data_.data(), first_output / kTileOutputs,
                              tiles, plan_.units, outputs, placement);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "packing an int4 weight");
  return {};
}

Status LinearWeightCuda::pack_bf16(const __nv_bfloat16* weight, int64_t outputs,
                                   OutputPlacement placement, int64_t first_output,
                                   cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kBf16, outputs, placement, first_output));
  const int64_t step = placement == OutputPlacement::kPlain ? 32 : 16;
  const int64_t tiles = (outputs + step - 1) / step;
  pack_bf16_kernel<<<static_cast<unsigned>(blocks_for(tiles * plan_.units * 128)), kThreads, 0,
                     stream>>>(weight, data_.data(), first_output / kTileOutputs, tiles,
                               plan_.units, outputs, placement);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "packing a bf16 weight");
  return {};
}

Status linear_awq_ref_cuda(const uint32_t* qweight, const uint32_t* qzeros, const __half* scales,
                           int64_t in_features, int64_t outputs, const __nv_bfloat16* input,
                           int rows, float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  linear_awq_ref_kernel<<<grid, kThreads, 0, stream>>>(qweight, qzeros, scales, in_features,
                                                       outputs, input, output);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "running the int4 reference");
  return {};
}

Status linear_bf16_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const __nv_bfloat16* input, int rows, float* output,
                            cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  linear_bf16_ref_kernel<<<grid, kThreads, 0, stream>>>(weight, in_features, outputs, input,
                                                        output);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "running the bf16 reference");
  return {};
}

}  // namespace forerun::cuda
