// The formats of stored linear weights. kernels/linear/formats/weight_formats.h has the properties
// of each, kernels/linear/formats/grouped_formats.h the layout of those from kQ4_0 on.
#pragma once

#include <cstdint>

namespace forerun {

enum class WeightFormat : uint8_t {
  kF32,
  kBf16,
  kF16,
  kInt8,
  kInt4,
  kBf16Pairs,
  kFp8,
  kInt8Groups,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kQ4_0Bf16,
};
inline constexpr uint32_t kWeightFormatCount = 22;

// A set of formats, as bits.
using WeightFormats = uint32_t;
constexpr WeightFormats weight_formats(WeightFormat format) {
  return WeightFormats{1} << static_cast<uint32_t>(format);
}
inline constexpr WeightFormats kAllWeightFormats = (WeightFormats{1} << kWeightFormatCount) - 1;

}  // namespace forerun
