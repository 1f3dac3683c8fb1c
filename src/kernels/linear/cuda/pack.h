// Device code that packs weights into the units of linear/cuda/plan.h, in the order of the tensor
// core's fragments. Files that fill weights and the reference implementations include it.
//
// Inside a unit of 32 outputs, output f belongs to lane group g = f / 4 and fragment half (f / 2) %
// 2, as its lower (f % 2 = 0) or upper row; so a lane has four consecutive outputs. Inputs keep
// their order: a step has 16 consecutive inputs, both as ldmatrix loads them for mma and as wgmma
// reads them from shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {

constexpr int kPackThreads = 256;
inline int64_t blocks_for(int64_t threads) { return (threads + kPackThreads - 1) / kPackThreads; }

// The index of the nibble that holds column c of the eight columns of a packed word, in AutoAWQ's
// order.
__device__ constexpr int kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

__device__ __forceinline__ uint32_t awq_nibble(const uint32_t* packed, int64_t row, int64_t columns,
                                               int64_t column) {
  return (packed[row * (columns / 8) + column / 8] >> (4 * kNibbleOfColumn[column % 8])) & 15u;
}

// Return the scale of an int8 group from its largest magnitude, and a weight rounded with that
// scale, as defined by LinearWeightCuda::round_bf16_to_int8().
__device__ __forceinline__ __half int8_scale(float max_abs) {
  return __float2half_rn(max_abs / 127.0f);
}
__device__ __forceinline__ int rounded_to_int8(float weight, __half scale) {
  const float step = __half2float(scale);
  const float q = step > 0.0f ? rintf(weight / step) : 0.0f;
  return static_cast<int>(fminf(fmaxf(q, -127.0f), 127.0f));
}

// Returns the output of the source from which fragment row (half, group, upper) of a tile takes its
// weights.
__device__ __forceinline__ int64_t source_output(OutputPlacement placement, int64_t tile, int half,
                                                 int group, int upper) {
  if (placement == OutputPlacement::kPlain) return tile * 32 + group * 4 + half * 2 + upper;
  return tile * 16 + group * 2 + upper;
}

__device__ __forceinline__ bool half_is_in_source(OutputPlacement placement, int half) {
  return placement == OutputPlacement::kPlain ||
         half == (placement == OutputPlacement::kGate ? 0 : 1);
}

// Arguments of a pack kernel beside its source.
struct PackTarget {
  std::byte* units;
  int64_t first_tile, tiles, unit_count, outputs;
  OutputPlacement placement;
};
// Sizes of a unit as constants, since device code may not read kUnitFormats.
template <LinearFormat kFormat>
inline constexpr int kUnitBytes = unit_bytes(kFormat);
template <LinearFormat kFormat>
inline constexpr int kQuantBytes = quant_bytes(kFormat);

// The 16-byte vector of a unit that a thread packs: one lane's operands of a fragment half, for
// four steps of 16 inputs (int4), two steps (int8) or one step (bf16).
struct PackVector {
  static constexpr int kOfUnit = 128;
  int lane, quarter, half;
  int64_t tile, unit;
  std::byte* unit_data;
  bool is_in_source;

  // `unit_size` is in bytes.
  __device__ __forceinline__ PackVector(const PackTarget& target, int unit_size) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
    const int vector = static_cast<int>(index % kOfUnit);
    lane = vector % 32;
    quarter = vector / 32 % 2;
    half = vector / 64;
    unit = index / kOfUnit % target.unit_count;
    tile = index / kOfUnit / target.unit_count;
    unit_data = target.units + ((target.first_tile + tile) * target.unit_count + unit) * unit_size;
    is_in_source = tile < target.tiles && half_is_in_source(target.placement, half);
  }
  // Returns the address of the vector.
  template <class T>
  __device__ __forceinline__ T* data() const {
    return reinterpret_cast<T*>(unit_data + ((half * 2 + quarter) * 32 + lane) * 16);
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

template <class Source>
__device__ __forceinline__ void pack_int8(const Source& source, const PackTarget& target,
                                          const PackVector& vector) {
  const int lane = vector.lane;
  uint32_t words[4] = {};
  for (int c = 0; c < 2; ++c) {
    const int step = vector.quarter * 2 + c;
    for (int i = 0; i < 4; ++i) {
      const int64_t output =
          source_output(target.placement, vector.tile, vector.half, lane / 4, i % 2);
      for (int pair = 0; pair < 2; ++pair) {
        const int input = step * 16 + i / 2 * 8 + lane % 4 * 2 + pair;
        const int weight = output < target.outputs ? source.weight(vector.unit, input, output) : 0;
        words[c * 2 + i / 2] |= static_cast<uint32_t>(weight + 128) << (16 * (i % 2) + 8 * pair);
      }
    }
  }
  *vector.data<uint4>() = make_uint4(words[0], words[1], words[2], words[3]);
  if (vector.quarter != 0 || lane % 4 != 0) return;
  const int group = lane / 4;
  for (int upper = 0; upper < 2; ++upper) {
    const int64_t output = source_output(target.placement, vector.tile, vector.half, group, upper);
    reinterpret_cast<__half*>(vector.unit_data + 2048)[group * 4 + vector.half * 2 + upper] =
        output < target.outputs ? source.scale(vector.unit, output) : __half(0.0f);
  }
}

inline PackTarget pack_target(const LinearPlan& plan, std::byte* units, int64_t outputs,
                              OutputPlacement placement, int64_t first_output) {
  const int64_t step = placement == OutputPlacement::kPlain ? kTileOutputs : kTileOutputs / 2;
  return {units,    first_output / kTileOutputs, (outputs + step - 1) / step, plan.units, outputs,
          placement};
}

inline unsigned pack_blocks(const PackTarget& target) {
  return static_cast<unsigned>(blocks_for(target.tiles * target.unit_count * PackVector::kOfUnit));
}

}  // namespace forerun::cuda
