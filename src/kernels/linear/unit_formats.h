// The formats in which GPUs read weights, one entry of kUnitFormats each. It is host arithmetic
// only, which model/ uses without a GPU.
//
// A weight [out][in] is stored as units, [out / 32][in / inputs]. A unit is contiguous; a warp
// copies it into shared memory and multiplies it. It has the quants (or numbers) of 32 outputs, in
// the order of the tensor core's fragments (linear/cuda/pack.h), then their scales and zeros:
//
//   int4        32 f16 scales, 32 zero points of 4 bits
//   int8        quants plus 128; 32 f16 scales
//   bf16        nothing
//   the others  linear/cuda/grouped_operands.h
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/linear/weight_format.h"

namespace forerun::cuda {

enum class LinearFormat : uint8_t {
  kInt4Group128,  // AutoAWQ's format
  kInt8Group64,   // LM heads only
  kBf16,
  // Blocks of GGUF files:
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ5_0,
  kQ5_1,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kQ3_K,
  kQ2_K,
  kInt4Zeros,  // 4 bits, with a scale and a zero point for each output and 32 inputs
  kFp8,        // e4m3, with an f32 scale for each output and 64 inputs
};

struct UnitFormat {
  LinearFormat format;
  // The same format on CPUs, or the nearest one if they read it differently.
  WeightFormat stored;
  const char* name;
  int inputs;       // inputs per unit
  int bits;         // bits per quant
  int scale_bytes;  // bytes of a unit's scales, minima and zero points; a multiple of 16
  // Approximate cycles of a unit per block and per warp (linear/cuda/split.cc).
  int block_cycles;
  int warp_cycles;
  // Approximate nanoseconds of a unit of a tile of 128 and of 64 rows (linear/cuda/tile_plan.cc).
  int tile_ns;
  int few_tile_ns;
  int min_groups = 0;  // groups of a unit's inputs that have a minimum each
};

// int4 and bf16 are measured; the others' cycles follow from their number of instructions.
inline constexpr UnitFormat kUnitFormats[] = {
    {LinearFormat::kInt4Group128, WeightFormat::kInt4, "int4", 128, 4, 80, 98, 618, 800, 450},
    {LinearFormat::kInt8Group64, WeightFormat::kInt8Groups, "int8", 64, 8, 64, 50, 330, 400, 225},
    {LinearFormat::kBf16, WeightFormat::kBf16, "bf16", 32, 16, 0, 20, 164, 270, 200},
    {LinearFormat::kQ8_0, WeightFormat::kQ8_0, "q8_0", 64, 8, 128, 55, 360, 450, 253},
    {LinearFormat::kQ4_0, WeightFormat::kQ4_0, "q4_0", 128, 4, 256, 105, 700, 900, 506},
    {LinearFormat::kQ4_1, WeightFormat::kQ4_1, "q4_1", 128, 4, 512, 120, 800, 1400, 787, 4},
    {LinearFormat::kQ4_K, WeightFormat::kQ4_K, "q4_k", 128, 4, 384, 120, 800, 1300, 731, 4},
    {LinearFormat::kQ5_K, WeightFormat::kQ5_K, "q5_k", 128, 5, 384, 130, 900, 1350, 759, 4},
    {LinearFormat::kQ6_K, WeightFormat::kQ6_K, "q6_k", 128, 6, 320, 130, 900, 1300, 731},
    {LinearFormat::kQ5_0, WeightFormat::kQ5_0, "q5_0", 128, 5, 256, 115, 800, 950, 534},
    {LinearFormat::kQ5_1, WeightFormat::kQ5_1, "q5_1", 128, 5, 512, 130, 900, 1450, 815, 4},
    {LinearFormat::kIq4Nl, WeightFormat::kIq4Nl, "iq4_nl", 128, 4, 256, 120, 850, 1000, 562},
    {LinearFormat::kIq4Xs, WeightFormat::kIq4Xs, "iq4_xs", 128, 4, 256, 120, 850, 1000, 562},
    {LinearFormat::kMxfp4, WeightFormat::kMxfp4, "mxfp4", 64, 4, 128, 50, 330, 430, 242},
    {LinearFormat::kQ3_K, WeightFormat::kQ3_K, "q3_k", 128, 3, 384, 120, 850, 950, 534},
    {LinearFormat::kQ2_K, WeightFormat::kQ2_K, "q2_k", 128, 2, 384, 120, 850, 1300, 731, 8},
    {LinearFormat::kInt4Zeros, WeightFormat::kInt4, "int4_zeros", 128, 4, 384, 120, 800, 1000, 562},
    {LinearFormat::kFp8, WeightFormat::kFp8, "fp8", 64, 8, 128, 50, 330, 400, 225},
};
constexpr const UnitFormat& unit_format(LinearFormat format) {
  return kUnitFormats[static_cast<int>(format)];
}
constexpr bool lines_are_in_order() {
  int index = 0;
  for (const UnitFormat& each : kUnitFormats) {
    if (static_cast<int>(each.format) != index++) return false;
  }
  return true;
}
static_assert(lines_are_in_order());

constexpr int unit_inputs(LinearFormat format) { return unit_format(format).inputs; }
constexpr int quant_bytes(LinearFormat format) {
  return 32 * unit_inputs(format) / 8 * unit_format(format).bits;
}
constexpr int unit_bytes(LinearFormat format) {
  return quant_bytes(format) + unit_format(format).scale_bytes;
}
constexpr int min_groups(LinearFormat format) { return unit_format(format).min_groups; }
// Whether the kernels of linear/cuda/grouped_unit.h read the format: all lines from kQ8_0 on.
constexpr bool is_grouped(LinearFormat format) { return format >= LinearFormat::kQ8_0; }
// Returns the grouped format for weights stored as `stored`.
constexpr std::optional<LinearFormat> grouped_format(WeightFormat stored) {
  for (const UnitFormat& each : kUnitFormats) {
    if (is_grouped(each.format) && each.stored == stored) return each.format;
  }
  return std::nullopt;
}
inline constexpr int kFirstGrouped = static_cast<int>(LinearFormat::kQ8_0);
inline constexpr int kGroupedFormatCount =
    static_cast<int>(sizeof(kUnitFormats) / sizeof(kUnitFormats[0])) - kFirstGrouped;

}  // namespace forerun::cuda
