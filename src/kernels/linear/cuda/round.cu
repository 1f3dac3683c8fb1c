// Rounds a bf16 weight to int4 or int8 and packs it into units, on the device.
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/pack.h"

namespace forerun::cuda {
namespace {

__device__ __forceinline__ float warp_max(float value) {
  for (int apart = 16; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
  }
  return value;
}

// The source of pack_int4() for one unit; its outputs and inputs lie in shared memory.
struct Int4UnitSource {
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

// A block rounds two units, each warp one output at a time, and packs them.
constexpr int kUnitsOfBlock = kPackThreads / PackVector::kOfUnit;

__global__ void round_to_int4_kernel(const __nv_bfloat16* weight, PackTarget target) {
  __shared__ uint8_t nibbles[kUnitsOfBlock][32][128];
  __shared__ uint8_t zeros[kUnitsOfBlock][32];
  __shared__ __half scales[kUnitsOfBlock][32];
  const PackVector vector(target, kUnitBytes<LinearFormat::kInt4Group128>);
  const int place = static_cast<int>(threadIdx.x) / PackVector::kOfUnit;
  constexpr int kWarps = PackVector::kOfUnit / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
  const int lane = vector.lane;
  // Gate and up share a tile.
  const int outputs = target.placement == OutputPlacement::kPlain ? 32 : 16;
  for (int f = warp; f < outputs && vector.tile < target.tiles; f += kWarps) {
    const int64_t output = vector.tile * outputs + f;
    if (output >= target.outputs) break;
    const int slot = static_cast<int>(output % 32);
    const int64_t first = (output * target.unit_count + vector.unit) * 128 + lane * 4;
    float w[4];
    float low = 0.0f;
    float high = 0.0f;
    for (int i = 0; i < 4; ++i) {
      w[i] = __bfloat162float(weight[first + i]);
      low = fminf(low, w[i]);
      high = fmaxf(high, w[i]);
    }
    low = -warp_max(-low);
    high = warp_max(high);
    const __half scale = __float2half_rn((high - low) / 15.0f);
    const float step = __half2float(scale);
    const float zero = step > 0.0f ? fminf(rintf(-low / step), 15.0f) : 0.0f;
    for (int i = 0; i < 4; ++i) {
      const float q = step > 0.0f ? rintf(w[i] / step) + zero : 0.0f;
      nibbles[place][slot][lane * 4 + i] = static_cast<uint8_t>(fminf(fmaxf(q, 0.0f), 15.0f));
    }
    if (lane == 0) {
      zeros[place][slot] = static_cast<uint8_t>(zero);
      scales[place][slot] = scale;
    }
  }
  __syncthreads();
  if (vector.is_in_source) {
    pack_int4(Int4UnitSource{nibbles[place], zeros[place], scales[place]}, target, vector);
  }
}

struct Int8UnitSource {
  const int8_t (*weights)[kInt8Group];
  const __half* scales;

  __device__ __forceinline__ int weight(int64_t, int input, int64_t output) const {
    return weights[output % 32][input];
  }
  __device__ __forceinline__ __half scale(int64_t, int64_t output) const {
    return scales[output % 32];
  }
};

__global__ void round_to_int8_kernel(const __nv_bfloat16* weight, PackTarget target) {
  __shared__ int8_t weights[kUnitsOfBlock][32][kInt8Group];
  __shared__ __half scales[kUnitsOfBlock][32];
  const PackVector vector(target, kUnitBytes<LinearFormat::kInt8Group64>);
  const int place = static_cast<int>(threadIdx.x) / PackVector::kOfUnit;
  constexpr int kWarps = PackVector::kOfUnit / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
  const int lane = vector.lane;
  for (int f = warp; f < 32 && vector.tile < target.tiles; f += kWarps) {
    const int64_t output = vector.tile * 32 + f;
    if (output >= target.outputs) break;
    const int64_t first = (output * target.unit_count + vector.unit) * kInt8Group + lane * 2;
    const float w[2] = {__bfloat162float(weight[first]), __bfloat162float(weight[first + 1])};
    const __half scale = int8_scale(warp_max(fmaxf(fabsf(w[0]), fabsf(w[1]))));
    for (int i = 0; i < 2; ++i) {
      weights[place][f][lane * 2 + i] = static_cast<int8_t>(rounded_to_int8(w[i], scale));
    }
    if (lane == 0) scales[place][f] = scale;
  }
  __syncthreads();
  if (vector.is_in_source) pack_int8(Int8UnitSource{weights[place], scales[place]}, target, vector);
}

}  // namespace

Status LinearWeightCuda::round_bf16_to_int4(const __nv_bfloat16* weight, int64_t outputs,
                                            OutputPlacement placement, int64_t first_output,
                                            cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(
      check_pack(LinearFormat::kInt4Group128, outputs, placement, first_output));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  return launch(round_to_int4_kernel, pack_blocks(target), kPackThreads, stream,
                "rounding a weight to int4", weight, target);
}

Status LinearWeightCuda::round_bf16_to_int8(const __nv_bfloat16* weight, int64_t outputs,
                                            cudaStream_t stream) {
  constexpr auto kPlain = OutputPlacement::kPlain;
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kInt8Group64, outputs, kPlain, 0));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, kPlain, 0);
  return launch(round_to_int8_kernel, pack_blocks(target), kPackThreads, stream,
                "rounding a weight to int8", weight, target);
}

}  // namespace forerun::cuda
