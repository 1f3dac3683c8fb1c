// What --weights and --draft-weights choose: the format that linear layers and the head are rounded
// to when they are loaded.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/linear/weight_format.h"

namespace forerun {

// The format of the linear layers and the head; embedding and norms stay as they are.
enum class WeightOverride : uint8_t {
  kAsStored,
  kInt8Head,  // the head alone, if it is stored as floats
  kInt4Head,  // the same, on GPUs only: for drafts
  // From here on there is one override for each WeightFormat, which requantize_to() gives. Those
  // that code names:
  kFormats,
  kF32 = kFormats + static_cast<uint8_t>(WeightFormat::kF32),
  kBf16 = kFormats + static_cast<uint8_t>(WeightFormat::kBf16),
  kInt8 = kFormats + static_cast<uint8_t>(WeightFormat::kInt8),
  kInt4 = kFormats + static_cast<uint8_t>(WeightFormat::kInt4),  // on GPUs only: for drafts
};

constexpr WeightOverride requantize_to(WeightFormat format) {
  return static_cast<WeightOverride>(static_cast<uint8_t>(WeightOverride::kFormats) +
                                     static_cast<uint8_t>(format));
}
// The format that everything is rounded to; unset for kAsStored and the overrides of the head.
constexpr std::optional<WeightFormat> override_format(WeightOverride weights) {
  if (weights < WeightOverride::kFormats) return std::nullopt;
  return static_cast<WeightFormat>(static_cast<uint8_t>(weights) -
                                   static_cast<uint8_t>(WeightOverride::kFormats));
}

// "as stored", "int8 head" or the name of the format, such as "q4_0".
const char* weight_override_name(WeightOverride weights);
// The override of the linear layers alone.
constexpr WeightOverride layers_override(WeightOverride weights) {
  return override_format(weights) ? weights : WeightOverride::kAsStored;
}
// The override of the head, on CPUs.
constexpr WeightOverride head_override(WeightOverride weights) {
  return weights == WeightOverride::kInt8Head ? WeightOverride::kInt8 : weights;
}

}  // namespace forerun
