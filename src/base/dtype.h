// Element types of tensors, and the formats of 16-bit and 8-bit floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forerun {

enum class DType : uint8_t {
  kF32,
  kBf16,
  kF16,
  kF8E4M3,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kBlocks,  // blocks of several elements, see checkpoint/blocks/block_format.h
  kParts,   // several tensors, see checkpoint/layouts/weight_parts.h
};

// Returns 0 for kBlocks and kParts, whose elements have no bytes of their own.
constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    case DType::kF8E4M3:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kBlocks:
    case DType::kParts:
      break;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "f8_e4m3";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kI16:
      return "i16";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
    case DType::kBlocks:
      return "blocks";
    case DType::kParts:
      return "parts";
  }
  return "?";
}

// The upper half of an IEEE binary32 (bfloat16).
struct bf16 {
  uint16_t bits;
};

// IEEE binary16.
struct f16 {
  uint16_t bits;
};

// OCP's 8-bit float with 4 bits of exponent (bias 7) and 3 of mantissa, the "fn" variant: no
// infinity, NaN is 0x7f and 0xff, the largest value is 448.
struct f8_e4m3 {
  uint8_t bits;
};

constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN (quiet).
constexpr bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return bf16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  return bf16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr float round_to_bf16(float value) { return to_float(to_bf16(value)); }

constexpr float to_float(f16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21u;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | ((113u - shift) << 23) | (mantissa << 13));
}

constexpr float to_float(f8_e4m3 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x80u) << 24;
  const uint32_t exponent = (value.bits >> 3) & 0xfu;
  const uint32_t mantissa = value.bits & 7u;
  if (exponent == 0xfu && mantissa == 7u) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  return sign != 0 ? -magnitude : magnitude;
}

// Rounds to nearest, ties to even; overflow gives infinity.
constexpr f16 to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return f16{static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return f16{static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {  // subnormal or zero
    if (magnitude < 0x33000000u) return f16{sign};
    const uint32_t shift = 126u - (magnitude >> 23);
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t half = 1u << (shift - 1u);
    const uint32_t rounded = (mantissa + half - 1u + ((mantissa >> shift) & 1u)) >> shift;
    return f16{static_cast<uint16_t>(sign | rounded)};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return f16{static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace forerun
