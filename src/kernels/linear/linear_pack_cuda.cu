// Puts weights into the order of the tensor core's fragments, on the device, and the reference
// twins that read the same sources plainly.
//
// Inside a unit of 32 outputs, output f is row g = f / 4 (its lane group) of fragment half
// (f / 2) % 2, upper or lower row f % 2; so a lane ends up with four consecutive outputs. Inputs
// keep their order: a step has 16 consecutive ones, as a matrix load brings them to mma and as
// wgmma finds them in shared memory.
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

// What a pack kernel reads beside its source.
struct PackTarget {
  std::byte* units;
  int64_t first_tile, tiles, unit_count, outputs;
  OutputPlacement placement;
};
// One thread a 16-byte vector of a unit: one lane's operands of a fragment half, of four steps of
// 16 inputs (int4) or one (bf16).
struct PackVector {
  static constexpr int kOfUnit = 128;
  int lane, quarter, half;
  int64_t tile, unit;
  std::byte* unit_data;
  bool ours;

  __device__ __forceinline__ PackVector(const PackTarget& target, LinearFormat format) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const int vector = static_cast<int>(index % kOfUnit);
    lane = vector % 32;
    quarter = vector / 32 % 2;
    half = vector / 64;
    unit = index / kOfUnit % target.unit_count;
    tile = index / kOfUnit / target.unit_count;
    unit_data =
        target.units + ((target.first_tile + tile) * target.unit_count + unit) * unit_bytes(format);
    ours = tile < target.tiles && half_is_ours(target.placement, half);
  }
  // Where the vector lies.
  template <class T>
  __device__ __forceinline__ T* data() const {
    return reinterpret_cast<T*>(unit_data + ((half * 2 + quarter) * 32 + lane) * 16);
  }
};

// AutoAWQ's tensors.
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

// Of one unit, whose outputs and inputs lie in shared memory.
struct UnitSource {
  const uint8_t (*nibbles)[128];
  const uint8_t* zeros;
  const __half* scales;

  __device__ __forceinline__ uint32_t nibble(int64_t, int input, int64_t output) const {
    return nibbles[output % 32][input];
  }
  __device__ __forceinline__ uint32_t zero(int64_t, int64_t output) const {
    return zeros[output % 32];
  }
  __device__ __forceinline__ __half scale(int64_t, int64_t output) const {
    return scales[output % 32];
  }
};

template <class Source>
__device__ __forceinline__ void pack_int4(const Source& source, const PackTarget& target,
                                          const PackVector& vector) {
  const int lane = vector.lane;
  uint32_t words[4] = {};
  for (int c = 0; c < 4; ++c) {
    const int step = vector.quarter * 4 + c;
    for (int i = 0; i < 4; ++i) {
      const int64_t output =
          source_output(target.placement, vector.tile, vector.half, lane / 4, i % 2);
      if (output >= target.outputs) continue;
      for (int pair = 0; pair < 2; ++pair) {
        const int input = step * 16 + i / 2 * 8 + lane % 4 * 2 + pair;
        words[c] |= source.nibble(vector.unit, input, output) << (4 * i + 16 * pair);
      }
    }
  }
  *vector.data<uint4>() = make_uint4(words[0], words[1], words[2], words[3]);
  if (vector.quarter != 0 || lane % 4 != 0) return;
  const int group = lane / 4;
  uint32_t zeros = 0;
  for (int upper = 0; upper < 2; ++upper) {
    const int64_t output = source_output(target.placement, vector.tile, vector.half, group, upper);
    const bool valid = output < target.outputs;
    reinterpret_cast<__half*>(vector.unit_data + 2048)[group * 4 + vector.half * 2 + upper] =
        valid ? source.scale(vector.unit, output) : __half(0.0f);
    if (valid) zeros |= source.zero(vector.unit, output) << (4 * upper);
  }
  reinterpret_cast<uint8_t*>(vector.unit_data + 2112)[group * 2 + vector.half] =
      static_cast<uint8_t>(zeros);
}

__global__ void pack_awq_kernel(AwqSource source, PackTarget target) {
  const PackVector vector(target, LinearFormat::kInt4Group128);
  if (vector.ours) pack_int4(source, target, vector);
}

// A block rounds two units, a warp an output at a time, and packs them.
constexpr int kUnitsOfBlock = kThreads / PackVector::kOfUnit;

__global__ void round_to_int4_kernel(const __nv_bfloat16* weight, PackTarget target) {
  __shared__ uint8_t nibbles[kUnitsOfBlock][32][128];
  __shared__ uint8_t zeros[kUnitsOfBlock][32];
  __shared__ __half scales[kUnitsOfBlock][32];
  const PackVector vector(target, LinearFormat::kInt4Group128);
  const int place = static_cast<int>(threadIdx.x) / PackVector::kOfUnit;
  constexpr int kWarps = PackVector::kOfUnit / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
  const int lane = vector.lane;
  for (int f = warp; f < 32 && vector.tile < target.tiles; f += kWarps) {
    const int64_t output = vector.tile * 32 + f;
    if (output >= target.outputs) break;
    const int64_t first = (output * target.unit_count + vector.unit) * 128 + lane * 4;
    float w[4];
    float low = 0.0f;
    float high = 0.0f;
    for (int i = 0; i < 4; ++i) {
      w[i] = __bfloat162float(weight[first + i]);
      low = fminf(low, w[i]);
      high = fmaxf(high, w[i]);
    }
    for (int apart = 16; apart > 0; apart /= 2) {
      low = fminf(low, __shfl_xor_sync(0xffffffffu, low, apart));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, apart));
    }
    const __half scale = __float2half_rn((high - low) / 15.0f);
    const float step = __half2float(scale);
    const float zero = step > 0.0f ? fminf(rintf(-low / step), 15.0f) : 0.0f;
    for (int i = 0; i < 4; ++i) {
      const float q = step > 0.0f ? rintf(w[i] / step) + zero : 0.0f;
      nibbles[place][f][lane * 4 + i] = static_cast<uint8_t>(fminf(fmaxf(q, 0.0f), 15.0f));
    }
    if (lane == 0) {
      zeros[place][f] = static_cast<uint8_t>(zero);
      scales[place][f] = scale;
    }
  }
  __syncthreads();
  if (vector.ours) {
    pack_int4(UnitSource{nibbles[place], zeros[place], scales[place]}, target, vector);
  }
}

__global__ void pack_bf16_kernel(const __nv_bfloat16* weight, PackTarget target) {
  const PackVector vector(target, LinearFormat::kBf16);
  if (!vector.ours) return;
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

__global__ void linear_awq_ref_kernel(const uint32_t* qweight, const uint32_t* qzeros,
                                      const __half* scales, int64_t in_features, int64_t outputs,
                                      const uint16_t* input, float* result) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
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
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = blockIdx.y;
  if (output >= outputs) return;
  double sum = 0;
  for (int64_t k = 0; k < in_features; ++k) {
    sum += static_cast<double>(__bfloat162float(weight[output * in_features + k])) *
           __bfloat162float(__ushort_as_bfloat16(input[row * in_features + k]));
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
  if (outputs < 1 || (!plain && outputs % 16 != 0)) {
    wrong = "outputs must be at least 1, and a multiple of 16 for gate and up";
  }
  if (first_output / kTileOutputs + tiles > plan_.tiles) wrong = "it does not fit in the weight";
  if (wrong == nullptr) return {};
  return {StatusCode::kInvalidArgument, "packing " + std::to_string(outputs) +
                                            " outputs from output " + std::to_string(first_output) +
                                            ": " + wrong};
}

namespace {

PackTarget pack_target(const LinearPlan& plan, std::byte* units, int64_t outputs,
                       OutputPlacement placement, int64_t first_output) {
  const int64_t step = placement == OutputPlacement::kPlain ? kTileOutputs : kTileOutputs / 2;
  return {units,    first_output / kTileOutputs, (outputs + step - 1) / step, plan.units, outputs,
          placement};
}

unsigned pack_blocks(const PackTarget& target) {
  return static_cast<unsigned>(blocks_for(target.tiles * target.unit_count * PackVector::kOfUnit));
}

}  // namespace

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
  pack_awq_kernel<<<pack_blocks(target), kThreads, 0, stream>>>(
      AwqSource{qweight, qzeros, scales, outputs}, target);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "packing an int4 weight");
  return {};
}

Status LinearWeightCuda::round_bf16_to_int4(const __nv_bfloat16* weight, int64_t outputs,
                                            cudaStream_t stream) {
  constexpr auto kPlain = OutputPlacement::kPlain;
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kInt4Group128, outputs, kPlain, 0));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, kPlain, 0);
  round_to_int4_kernel<<<pack_blocks(target), kThreads, 0, stream>>>(weight, target);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "rounding a weight to int4");
  return {};
}

Status LinearWeightCuda::pack_bf16(const __nv_bfloat16* weight, int64_t outputs,
                                   OutputPlacement placement, int64_t first_output,
                                   cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kBf16, outputs, placement, first_output));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  pack_bf16_kernel<<<pack_blocks(target), kThreads, 0, stream>>>(weight, target);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "packing a bf16 weight");
  return {};
}

Status linear_awq_ref_cuda(const uint32_t* qweight, const uint32_t* qzeros, const __half* scales,
                           int64_t in_features, int64_t outputs, const uint16_t* input, int rows,
                           float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  linear_awq_ref_kernel<<<grid, kThreads, 0, stream>>>(qweight, qzeros, scales, in_features,
                                                       outputs, input, output);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "running the int4 reference");
  return {};
}

Status linear_bf16_ref_cuda(const __nv_bfloat16* weight, int64_t in_features, int64_t outputs,
                            const uint16_t* input, int rows, float* output, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_for(outputs)), static_cast<unsigned>(rows));
  linear_bf16_ref_kernel<<<grid, kThreads, 0, stream>>>(weight, in_features, outputs, input,
                                                        output);
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "running the bf16 reference");
  return {};
}

}  // namespace forerun::cuda
