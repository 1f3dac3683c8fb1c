// The choices of --weights and --draft-weights: the format to which linear layers and the head are
// rounded at loading.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/linear/weight_format.h"

namespace forerun {

// The format of the linear layers and the head; embedding and norms stay as they are.
enum class WeightOverride : uint8_t {
  kAsStored,
  kInt8Head,  // only the head, if it is stored as floats
  kInt4Head,  // the same, only on GPUs: for drafts
  // From here on each WeightFormat has one override, which requantize_to() returns. Code names
  // these:
  kFormats,
  kF32 = kFormats + static_cast<uint8_t>(WeightFormat::kF32),
  kBf16 = kFormats + static_cast<uint8_t>(WeightFormat::kBf16),
  kInt8 = kFormats + static_cast<uint8_t>(WeightFormat::kInt8),
  kInt4 = kFormats + static_cast<uint8_t>(WeightFormat::kInt4),  // only on GPUs: for drafts
};

constexpr WeightOverride requantize_to(WeightFormat format) {
  return static_cast<WeightOverride>(static_cast<uint8_t>(WeightOverride::kFormats) +
                                     static_cast<uint8_t>(format));
}
// Returns the format to which everything is rounded; unset for kAsStored and the overrides of the
// head.
constexpr std::optional<WeightFormat> override_format(WeightOverride weights) {
  if (weights < WeightOverride::kFormats) return std::nullopt;
  return static_cast<WeightFormat>(static_cast<uint8_t>(weights) -
                                   static_cast<uint8_t>(WeightOverride::kFormats));
}

// Returns "as stored", "int8 head" or the name of the format, such as "q4_0".
const char* weight_override_name(WeightOverride weights);
// Returns the override of the linear layers alone.
constexpr WeightOverride layers_override(WeightOverride weights) {
  return override_format(weights) ? weights : WeightOverride::kAsStored;
}
// Returns the override of the head, on CPUs.
constexpr WeightOverride head_override(WeightOverride weights) {
  return weights == WeightOverride::kInt8Head ? WeightOverride::kInt8 : weights;
}

}  // namespace forerun
