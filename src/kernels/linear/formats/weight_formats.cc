#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

constexpr WeightFormatInfo kTable[] = {
    {WeightFormat::kF32, "f32", WeightKind::kDense, 0, dequantize_f32},
    {WeightFormat::kBf16, "bf16", WeightKind::kDense, 1, dequantize_bf16},
    {WeightFormat::kF16, "f16", WeightKind::kDense, 2, dequantize_f16},
    {WeightFormat::kInt8, "int8", WeightKind::kIntegers, 0, dequantize_int8},
    {WeightFormat::kInt4, "int4", WeightKind::kIntegers, 1, dequantize_int4},
    {WeightFormat::kBf16Pairs, "bf16_pairs", WeightKind::kPairs, 0, dequantize_bf16_pairs},
};

constexpr bool in_order() {
  size_t place = 0;
  for (const WeightFormatInfo& info : kTable) {
    if (static_cast<size_t>(info.format) != place++) return false;
  }
  return place == kWeightFormatCount;
}
static_assert(in_order());

}  // namespace

std::span<const WeightFormatInfo> weight_format_table() { return kTable; }

const WeightFormatInfo& weight_format_info(WeightFormat format) {
  return kTable[static_cast<size_t>(format)];
}

}  // namespace forerun
