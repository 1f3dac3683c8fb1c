// The format of activations in GPU memory between the kernels of a layer: 16 bits each, in the
// format of the reading linear layer's products. The writing kernel takes the format as an argument
// (pack_activations() of kernels/cuda/ptx.h).
#pragma once

#include <cstdint>

namespace forerun::cuda {

enum class ActivationFormat : uint8_t {
  kBf16,
  // x * kF16Scale in f16, for int4 layers: a nibble is a (subnormal) f16 without conversion, and
  // converting it to bf16 would take twice the work. f16 keeps 11 significant bits of x, bf16 8.
  // Magnitudes beyond 65,504 / kF16Scale are clamped to it.
  kF16,
};
// Leaves headroom for activations that no norm has divided by their root mean square yet, and
// rounds small activations with an error of at most 5e-7.
inline constexpr float kF16Scale = 1.0f / 16;

}  // namespace forerun::cuda
