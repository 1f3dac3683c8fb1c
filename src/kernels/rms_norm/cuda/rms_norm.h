// RMSNorm of the residual stream on a GPU, without a kernel of its own:
//   y = x * w / sqrt(mean(x²) + eps)
// The kernel that writes x (an embedding, or a linear layer that adds to the residual) also writes
// x * w, rounded to 16 bits, and the sum of the squares of every kNormGroup values of x. A linear
// layer that needs y as its input multiplies x * w instead and scales its finished sums by 1 /
// sqrt(mean(x²) + eps), which is one number per row. It adds the sums of the groups in one order,
// whatever the number of rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

// Half of a linear layer's tile: the outputs of a block in a cluster of two.
inline constexpr int kNormGroup = 16;

// Outputs that a kernel writes beside x [rows][dim] for the following norm; device memory, 16-byte
// aligned. `dim` is a multiple of 32.
struct NormOutputCuda {
  const float* weight = nullptr;  // [dim]; null if no norm follows; never written while in use
  uint16_t* scaled = nullptr;     // x * weight, with x's row stride
  float* squares = nullptr;       // [rows][dim / kNormGroup]
  ActivationFormat format = ActivationFormat::kBf16;  // format of `scaled`
};

// The inputs of the norm for a linear layer whose input is `scaled`.
struct NormInputCuda {
  const float* squares = nullptr;  // [..][dim / kNormGroup], of x; null without a norm
  float eps = 0;
};

}  // namespace forerun::cuda
