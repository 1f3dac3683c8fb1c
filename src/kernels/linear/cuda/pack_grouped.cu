// Packs blocks of GGUF files and e4m3 into the units of grouped formats, on the device.
#include <cstddef>
#include <string>

#include "base/status_macros.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/grouped_operands.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/pack.h"
#include "kernels/linear/cuda/stored_blocks.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A source of quants, addressed by output and input.
template <LinearFormat kFormat>
struct BlockSource {
  using Block = StoredBlock<kFormat>;
  StoredBlocks blocks;

  __device__ __forceinline__ const uint8_t* block(int64_t output, int64_t input) const {
    return reinterpret_cast<const uint8_t*>(blocks.rows) + output * blocks.row_bytes +
           (blocks.first_input + input) / Block::kInputs * Block::kBytes;
  }
  __device__ __forceinline__ int within(int64_t input) const {
    return static_cast<int>((blocks.first_input + input) % Block::kInputs);
  }
  __device__ __forceinline__ uint32_t quant(int64_t output, int64_t input) const {
    return Block::quant(block(output, input), within(input));
  }
};
struct Fp8Source {
  StoredFp8 fp8;
  int64_t inputs;
  __device__ __forceinline__ uint32_t quant(int64_t output, int64_t input) const {
    return fp8.codes[output * inputs + input];
  }
};

// Calls put(step, i, pair, quant) for each weight of the lane: `step` counts the 16-input steps
// from `first_step`; i % 2 is the fragment row (lower, upper), i / 2 the half of the step's inputs,
// and `pair` the first or second of two adjacent inputs. Skips outputs past the last.
template <class Source, class Put>
__device__ __forceinline__ void each_quant(const Source& source, const PackTarget& target,
                                           const PackVector& vector, int unit_inputs,
                                           int first_step, int steps, Put put) {
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 4; ++i) {
      const int64_t output =
          source_output(target.placement, vector.tile, vector.half, vector.lane / 4, i % 2);
      if (output >= target.outputs) continue;
      for (int pair = 0; pair < 2; ++pair) {
        const int64_t input = vector.unit * unit_inputs + (first_step + step) * 16 + i / 2 * 8 +
                              vector.lane % 4 * 2 + pair;
        put(step, i, pair, source.quant(output, input));
      }
    }
  }
}

// Where a quant of 4 bits lies in its word, and what it becomes there. `i`: which of the four
// registers of a step's operand has it.
template <LinearFormat kFormat>
__device__ __forceinline__ uint32_t placed_low_bits(uint32_t q, int step, int i, int pair) {
  using Traits = GroupedTraits<kFormat>;
  if constexpr (Traits::kQuants == QuantKind::kIq4) {
    return q << (i * 8 + pair * 4);
  } else if constexpr (Traits::kQuants == QuantKind::kE2m1) {
    const uint32_t sign = q >> 3, rest = q & 7;
    const uint32_t bits = i == 0   ? sign << 15 | rest << 9
                          : i == 1 ? sign << 12 | rest << 6
                          : i == 2 ? sign << 14 | rest << 3
                                   : sign << 13 | rest;
    return bits << (16 * pair);
  } else if constexpr (Traits::kLowBits == 4) {
    return (q & 15) << (4 * i + 16 * pair);
  } else {
    return (q & 3) << (step % 2 * 8 + i % 2 * 4 + i / 2 * 2 + 16 * pair);
  }
}

// The layouts of linear/cuda/grouped_operands.h.
template <LinearFormat kFormat, class Source>
__device__ __forceinline__ void pack_quants(const Source& source, const PackTarget& target,
                                            const PackVector& vector) {
  using Traits = GroupedTraits<kFormat>;
  constexpr int kInputs = unit_inputs(kFormat);
  if constexpr (Traits::kBits < 8) {
    constexpr int kLowBits = Traits::kLowBits, kHighBits = Traits::kHighBits;
    if (vector.quarter >= Traits::kQuads) return;
    uint32_t low[kLowBits] = {}, high[2] = {};
    each_quant(source, target, vector, kInputs, vector.quarter * 4, 4,
               [&](int step, int i, int pair, uint32_t q) {
                 low[step * kLowBits / 4] |= placed_low_bits<kFormat>(q, step, i, pair);
                 if constexpr (kHighBits > 0) {
                   constexpr int kStepsOfWord = 4 / kHighBits;
                   high[step / kStepsOfWord] |=
                       q >> kLowBits << ((step % kStepsOfWord * 4 + i) * kHighBits + 16 * pair);
                 }
               });
    auto* const to = reinterpret_cast<uint32_t*>(vector.unit_data);
    const int place = (vector.half * Traits::kQuads + vector.quarter) * 32 + vector.lane;
    for (int i = 0; i < kLowBits; ++i) to[place * kLowBits + i] = low[i];
    for (int i = 0; i < kHighBits; ++i) {
      to[2 * Traits::kQuads * 32 * kLowBits + place * kHighBits + i] = high[i];
    }
  } else {
    uint32_t words[4] = {};
    each_quant(source, target, vector, kInputs, vector.quarter * 2, 2,
               [&](int step, int i, int pair, uint32_t q) {
                 uint32_t bits = q << (8 * pair + 16 * (i % 2));
                 if constexpr (Traits::kQuants == QuantKind::kE4m3) {
                   const uint32_t sign = q >> 7, rest = q & 0x7f;
                   bits = (i % 2 == 0 ? sign << 15 | rest << 7 : sign << 14 | rest) << (16 * pair);
                 }
                 words[step * 2 + i / 2] |= bits;
               });
    *vector.data<uint4>() = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Writes the scales of one row of a lane's group, row `place` = (half * 8 + group) * 2 + upper of
// 32.
template <LinearFormat kFormat>
__device__ __forceinline__ void pack_scales(const BlockSource<kFormat>& source, int64_t output,
                                            int64_t unit, int place, std::byte* to) {
  using Traits = GroupedTraits<kFormat>;
  using Block = StoredBlock<kFormat>;
  constexpr int kGroups = Traits::kGroups;
  constexpr int kInputs = unit_inputs(kFormat);
  const int slot = place / 2, upper = place % 2;
  auto* const bytes = reinterpret_cast<uint8_t*>(to);
  auto* const halves = reinterpret_cast<uint16_t*>(to);
  for (int group = 0; group < kGroups; ++group) {
    const int64_t input = unit * kInputs + group * (kInputs / kGroups);
    const uint8_t* const block = source.block(output, input);
    const int at = (slot * kGroups + group) * 2 + upper;
    constexpr ScaleKind kScales = Traits::kScales;
    if constexpr (kScales == ScaleKind::kHalves || kScales == ScaleKind::kBf16s ||
                  kScales == ScaleKind::kHalvesZeros) {
      halves[at] = static_cast<uint16_t>(Block::d(block));
      if constexpr (Traits::kHasMin) {
        halves[at + kGroups * 32] = static_cast<uint16_t>(Block::dmin(block));
      }
      if constexpr (kScales == ScaleKind::kHalvesZeros) {
        bytes[at + kGroups * 64] = static_cast<uint8_t>(Block::zero(block));
      }
    } else {
      constexpr bool kHasNibbles = kScales == ScaleKind::kOperandNibbles;
      constexpr bool kHasMinBytes = Traits::kHasMin && !kHasNibbles;
      const int in_block = source.within(input) / (kInputs / kGroups);
      uint32_t scale = Block::scale(block, in_block) - Block::kScaleZero + Traits::kScaleZero;
      if constexpr (kHasNibbles) scale |= Block::minimum(block, in_block) << 4;
      bytes[at] = static_cast<uint8_t>(scale);
      if constexpr (kHasMinBytes) {
        bytes[at + kGroups * 32] = static_cast<uint8_t>(Block::minimum(block, in_block));
      }
      if (group == 0) {
        uint16_t* const d = halves + kGroups * (kHasMinBytes ? 32 : 16);
        d[place] = static_cast<uint16_t>(Block::d(block));
        if constexpr (Traits::kHasMin) d[place + 32] = static_cast<uint16_t>(Block::dmin(block));
      }
    }
  }
}

template <LinearFormat kFormat>
__global__ void pack_blocks_kernel(StoredBlocks blocks, PackTarget target) {
  const PackVector vector(target, kUnitBytes<kFormat>);
  if (!vector.is_in_source) return;
  const BlockSource<kFormat> source{blocks};
  pack_quants<kFormat>(source, target, vector);
  if (vector.quarter != 0 || vector.lane % 4 != 0) return;
  for (int upper = 0; upper < 2; ++upper) {
    const int group = vector.lane / 4;
    const int64_t output = source_output(target.placement, vector.tile, vector.half, group, upper);
    if (output >= target.outputs) continue;
    pack_scales<kFormat>(source, output, vector.unit, (vector.half * 8 + group) * 2 + upper,
                         vector.unit_data + kQuantBytes<kFormat>);
  }
}

// Blocks of 4-bit integers of which four in a row have the same scale and zero point, up to 15, for
// the int4 kernels.
struct Int4Source {
  BlockSource<LinearFormat::kInt4Zeros> source;
  using Block = StoredBlock<LinearFormat::kInt4Zeros>;

  __device__ __forceinline__ uint32_t nibble(int64_t unit, int input, int64_t output) const {
    return source.quant(output, unit * kInt4Group + input);
  }
  __device__ __forceinline__ uint32_t zero(int64_t unit, int64_t output) const {
    return Block::zero(source.block(output, unit * kInt4Group));
  }
  __device__ __forceinline__ __half scale(int64_t unit, int64_t output) const {
    const uint32_t bits = Block::d(source.block(output, unit * kInt4Group));
    return __ushort_as_half(static_cast<unsigned short>(bits));
  }
};
__global__ void pack_int4_blocks_kernel(StoredBlocks blocks, PackTarget target) {
  const PackVector vector(target, kUnitBytes<LinearFormat::kInt4Group128>);
  if (vector.is_in_source) pack_int4(Int4Source{{blocks}}, target, vector);
}

__global__ void pack_fp8_kernel(StoredFp8 fp8, PackTarget target) {
  constexpr LinearFormat kFormat = LinearFormat::kFp8;
  constexpr int kInputs = unit_inputs(kFormat);
  const PackVector vector(target, kUnitBytes<kFormat>);
  if (!vector.is_in_source) return;
  pack_quants<kFormat>(Fp8Source{fp8, target.unit_count * kInputs}, target, vector);
  if (vector.quarter != 0 || vector.lane % 4 != 0) return;
  auto* const to = reinterpret_cast<float*>(vector.unit_data + kQuantBytes<kFormat>);
  for (int upper = 0; upper < 2; ++upper) {
    const int group = vector.lane / 4;
    const int64_t output = source_output(target.placement, vector.tile, vector.half, group, upper);
    if (output >= target.outputs) continue;
    to[(vector.half * 8 + group) * 2 + upper] =
        fp8.scales[output * target.unit_count + vector.unit];
  }
}

#else

template <LinearFormat kFormat>
__global__ void pack_blocks_kernel(StoredBlocks, PackTarget) {}
__global__ void pack_int4_blocks_kernel(StoredBlocks, PackTarget) {}
__global__ void pack_fp8_kernel(StoredFp8, PackTarget) {}

#endif

using PackBlocks = void (*)(StoredBlocks, PackTarget);
PackBlocks find_pack(LinearFormat format) {
  PackBlocks found = format == LinearFormat::kInt4Group128 ? pack_int4_blocks_kernel : nullptr;
  each_block_format([&]<LinearFormat kFormat>() {
    if (format == kFormat) found = pack_blocks_kernel<kFormat>;
  });
  return found;
}

}  // namespace

Status LinearWeightCuda::pack_stored(const StoredBlocks& blocks, int64_t outputs,
                                     OutputPlacement placement, int64_t first_output,
                                     cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_pack(plan_.format, outputs, placement, first_output));
  const PackBlocks kernel = find_pack(plan_.format);
  if (kernel == nullptr || blocks.first_input % unit_inputs(plan_.format) != 0) {
    return {StatusCode::kInvalidArgument,
            "packing blocks from input " + std::to_string(blocks.first_input) +
                ": the weight was planned for another format, or its units begin elsewhere"};
  }
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  return launch(kernel, pack_blocks(target), kPackThreads, stream, "packing blocks of weights",
                blocks, target);
}

Status LinearWeightCuda::pack_stored(const StoredFp8& fp8, int64_t outputs,
                                     OutputPlacement placement, int64_t first_output,
                                     cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_pack(LinearFormat::kFp8, outputs, placement, first_output));
  const PackTarget target = pack_target(plan_, data_.data(), outputs, placement, first_output);
  return launch(pack_fp8_kernel, pack_blocks(target), kPackThreads, stream, "packing an FP8 weight",
                fp8, target);
}

}  // namespace forerun::cuda
