// The numeric choices of a CPU forward pass. Together with the instruction set they are part of the
// numeric fingerprint: output is bit-identical among all strategies within one fingerprint.
#pragma once

#include <cstdint>

namespace forerun {

// What a linear layer's input, the residual stream and the KV cache are rounded to. Accumulation is
// always f32.
enum class Activation : uint8_t {
  kF32,  // nothing is rounded: goldens
  // Default. int8 and int4 weights meet the bf16 inputs as 16-bit block fixed point, groups of 128
  // inputs under one power of two: exact unless an input is more than 2^6 below it, else off by at
  // most 2^-14 of it (bf16 rounds the largest by up to 2^-8; kernels/linear/cpu/kernels.h).
  kBf16,
  // As kBf16, and inputs of int8 and int4 weights are quantized to int8, absmax / 127, one scale a
  // row and group of 128 inputs.
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
