// The numeric choices of a CPU forward pass. They and the instruction set are part of the numeric
// fingerprint: within one fingerprint, the output of all strategies is bit-identical.
#pragma once

#include <cstdint>

namespace forerun {

// The format to which linear layers' inputs, the residual stream and the KV cache are rounded.
// Accumulation is always f32.
enum class Activation : uint8_t {
  kF32,  // no rounding; for golden tests
  // Default. For integer weights the bf16 inputs are converted to 16-bit block fixed point,
  // where a group of 128 inputs shares a power of two as its scale. An input is exact if it is at
  // most 2^6 below that power of two; otherwise its error is at most 2^-14 of it (bf16 itself
  // rounds the largest input by up to 2^-8). See kernels/linear/cpu/kernels.h.
  kBf16,
  // Like kBf16, but inputs of layers with integer weights are quantized to int8 by absmax / 127,
  // with one scale per row and group of 128 inputs.
  kInt8,
};

constexpr const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kF32:
      return "f32";
    case Activation::kBf16:
      return "bf16";
    case Activation::kInt8:
      return "int8";
  }
  return "?";
}

}  // namespace forerun
