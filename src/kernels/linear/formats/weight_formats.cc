#include "kernels/linear/formats/weight_formats.h"

#include <array>
#include <utility>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/formats/grouped.h"

namespace forerun {
namespace {

constexpr WeightFormatInfo kOthers[] = {
    {WeightFormat::kF32, "f32", WeightKind::kDense, 0, dequantize_f32},
    {WeightFormat::kBf16, "bf16", WeightKind::kDense, 1, dequantize_bf16},
    {WeightFormat::kF16, "f16", WeightKind::kDense, 2, dequantize_f16},
    {WeightFormat::kInt8, "int8", WeightKind::kIntegers, 0, dequantize_int8},
    {WeightFormat::kInt4, "int4", WeightKind::kIntegers, 1, dequantize_int4},
    {WeightFormat::kBf16Pairs, "bf16_pairs", WeightKind::kPairs, 0, dequantize_bf16_pairs},
    {WeightFormat::kFp8, "fp8", WeightKind::kDense, 3, dequantize_fp8},
    {WeightFormat::kInt8Groups, "int8_groups", WeightKind::kIntegers, 2, dequantize_int8_groups},
};
constexpr size_t kOtherCount = std::size(kOthers);

template <size_t kIndex>
void dequantize_row(const LinearWeight::Storage& storage, int64_t out, int64_t in, float* row) {
  dequantize_grouped(kGroupedFormats[kIndex], storage, out, in, row);
}

template <size_t... kIndices>
constexpr auto make_table(std::index_sequence<kIndices...> /*grouped*/) {
  std::array<WeightFormatInfo, kOtherCount + sizeof...(kIndices)> table = {};
  for (size_t idx = 0; idx < kOtherCount; ++idx) table[idx] = kOthers[idx];
  ((table[kOtherCount + kIndices] = {kGroupedFormats[kIndices].format,
                                     kGroupedFormats[kIndices].name, WeightKind::kIntegers,
                                     kFirstGroupedKernel + int32_t{kIndices},
                                     dequantize_row<kIndices>}),
   ...);
  return table;
}

constexpr auto kTable = make_table(std::make_index_sequence<kGroupedFormatCount>());

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

int64_t block_bytes(WeightFormat format, int64_t in, int64_t chunk) {
  const int64_t padded = round_up(in, kInputPad);
  const int64_t chunks = round_up(padded, chunk) / chunk;
  switch (format) {
    case WeightFormat::kInt8:
      return kVectorBytes * (1 + padded / 4);
    case WeightFormat::kInt8Groups:
      return kVectorBytes * (chunks + padded / 4);
    case WeightFormat::kInt4:
      return kVectorBytes * (chunks + padded / 8);
    case WeightFormat::kBf16Pairs:
      return kVectorBytes * (padded / 2);
    default:
      break;
  }
  const GroupedFormat& grouped = grouped_format(format);
  return round_up(in, section_inputs(grouped)) / section_inputs(grouped) * section_bytes(grouped);
}

int64_t weight_bytes(WeightFormat format, int64_t out, int64_t in, int64_t chunk) {
  if (weight_format_info(format).kind == WeightKind::kDense) {
    return out * in * (format == WeightFormat::kF32 ? 4 : format == WeightFormat::kFp8 ? 1 : 2);
  }
  return round_up(out, kBlockOuts) / kBlockOuts * block_bytes(format, in, chunk);
}

}  // namespace forerun
