// RMSNorm of the residual stream on a GPU, without a kernel of its own:
//   y = x * w / sqrt(mean(x²) + eps)
// The kernel that writes x (an embedding, or a linear layer that adds to the residual) also writes
// x * w, rounded to 16 bits, and the sum of the squares of every kNormGroup values of x. A linear
// layer that reads y multiplies x * w and scales its finished sums by the rest, which is one number
// a row: the groups are added in one order, whatever the number of rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

inline constexpr int kNormGroup = 16;  // half a linear layer's tile: what one block of two owns

// What is written beside x [rows][dim] for the norm that follows it; device memory, 16-byte
// aligned. `dim` is a multiple of 32.
struct NormOutputCuda {
  const float* weight = nullptr;  // [dim]; null: no norm follows. Never written while in use.
  uint16_t* scaled = nullptr;     // x * weight, rows as far apart as x's
  float* squares = nullptr;       // [rows][dim / kNormGroup]
  ActivationFormat format = ActivationFormat::kBf16;  // of `scaled`
};

// The other half, for a layer whose input is `scaled`.
struct NormInputCuda {
  const float* squares = nullptr;  // [..][dim / kNormGroup], of x; null: the input is used as it is
  float eps = 0;
};

}  // namespace forerun::cuda
