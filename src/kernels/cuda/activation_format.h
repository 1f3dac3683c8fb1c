// How activations lie in GPU memory between the kernels of a layer: 16 bits each, in the format
// that the linear layer that reads them multiplies. Who writes them is told which
// (pack_activations() of kernels/cuda/ptx.h).
#pragma once

#include <cstdint>

namespace forerun::cuda {

enum class ActivationFormat : uint8_t {
  kBf16,
  // f16 of x * kF16Scale, for int4 layers: their nibbles are f16 (subnormal ones) as they lie, and
  // bf16 after twice the work. 11 bits of x for 8; what lies beyond 65,504 / kF16Scale becomes
  // that.
  kF16,
};
// Leaves room above for activations that no norm has divided by their root mean square yet, and
// 5e-7 of precision below.
inline constexpr float kF16Scale = 1.0f / 16;

}  // namespace forerun::cuda
