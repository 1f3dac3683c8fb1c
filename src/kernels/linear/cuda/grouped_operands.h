// Operands of the tensor core for weights of the grouped formats (linear/unit_formats.h): small
// integers with scales that 16 or 32 inputs share, and e4m3. Device code; only the linear kernels
// and their packing include it.
//
// A unit has two halves of 16 outputs, each in the place of the tensor core's 16-row operand; a
// lane has two outputs of a half, the lower and the upper row of group g = lane / 4. Quants lie
// [half][64 inputs][lane]:
//
//   8 bits, e4m3  32 bytes per lane: two words for each 16 inputs, of inputs 0 to 7 and 8 to 15
//   4, 5, 6 bits  16 bytes per lane: a word for each 16 inputs with the low four bits,
//                 [pair][inputs 0 to 7, 8 to 15][row]; then, in a section of its own, 4 or 8 bytes
//                 per lane with the high bits, [pair][16 inputs][inputs 0 to 7, 8 to 15][row]
//
// Then, each [half][g][group of inputs][row]:
//
//   q8_0, q4_0  f16 scales
//   q4_1        f16 scales; f16 minima
//   q4_K, q5_K  a byte a group: integer scales; a byte a group: integer minima; f16 d; f16 dmin
//   q6_K        a byte a group: integer scales plus 128; f16 d
//   fp8         f32 scales
//
// Bits 0 to 10 of an f16 count units of 2^-24, so an integer below 2,048 is a number in place. The
// upper row's quants of 4, 5 and 6 bits stay four bits up: they and their sums are 16 times too
// large until finish(). Operands are exact. If each group has a scale, the group's products are one
// part, which the scale multiplies in f32. q4_K and q5_K need no parts: a quant times its group's
// integer scale has at most 11 bits. Minima are operands of products of their own (part `low`),
// which add up a group's activations times its minimum.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/activation_format.h"
#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t subtract_f16x2(uint32_t a, uint32_t b) {
  __half2 r = __hsub2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<uint32_t*>(&r);
}
__device__ __forceinline__ uint32_t multiply_f16x2(uint32_t a, uint32_t b) {
  __half2 r = __hmul2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<uint32_t*>(&r);
}
__device__ __forceinline__ float2 widen_halves(uint32_t pair) {
  return __half22float2(reinterpret_cast<const __half2&>(pair));
}
// Returns byte `byte` of a word minus 128: a float of 2^23 plus an integer below 256 has the
// integer in its low byte.
__device__ __forceinline__ float byte_minus_128(uint32_t word, int byte) {
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + byte)) - (0x1p23f + 128.0f);
}
// Loads kWords words from an address that is a multiple of their size.
template <int kWords>
__device__ __forceinline__ void load_shared_words(uint32_t address, uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if constexpr (kWords == 1) {
    words[0] = load_shared_constant_4(address);
  } else if constexpr (kWords == 2) {
    const uint2 v = load_shared_8(address);
    words[0] = v.x;
    words[1] = v.y;
  } else {
    const uint4 v = load_shared_16(address);
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
  }
}

// Adds products to sums. [0] and [1] are two columns of the lower row, [2] and [3] of the upper.
__device__ __forceinline__ void add_scaled(float (&sums)[4], const float (&part)[4], float2 scale) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[i] = __fmaf_rn(i < 2 ? scale.x : scale.y, part[i], sums[i]);
  }
}

// The storage of a format's quants.
enum class QuantKind : uint8_t { kBytes, kPlanes, kE4m3 };
// The storage of a format's scales.
enum class ScaleKind : uint8_t { kHalves, kPartBytes, kOperandBytes, kFloats };

template <LinearFormat kFormat>
struct GroupedTraits {
  static constexpr int kBits = unit_format(kFormat).bits;
  static constexpr QuantKind kQuants = kFormat == LinearFormat::kFp8 ? QuantKind::kE4m3
                                       : kBits == 8                  ? QuantKind::kBytes
                                                                     : QuantKind::kPlanes;
  static constexpr ScaleKind kScales =
      kFormat == LinearFormat::kFp8                                      ? ScaleKind::kFloats
      : kFormat == LinearFormat::kQ6_K                                   ? ScaleKind::kPartBytes
      : kFormat == LinearFormat::kQ4_K || kFormat == LinearFormat::kQ5_K ? ScaleKind::kOperandBytes
                                                                         : ScaleKind::kHalves;
  // The zero point, which is subtracted from a quant.
  static constexpr int kZero = kFormat == LinearFormat::kQ8_0   ? 128
                               : kFormat == LinearFormat::kQ4_0 ? 8
                               : kFormat == LinearFormat::kQ6_K ? 32
                                                                : 0;
  static constexpr bool kHasMin =
      kFormat == LinearFormat::kQ4_1 || kScales == ScaleKind::kOperandBytes;
  static constexpr int kSteps = unit_inputs(kFormat) / 16;
  static constexpr int kGroupSteps = kQuants == QuantKind::kE4m3      ? kSteps
                                     : kFormat == LinearFormat::kQ6_K ? 1
                                                                      : 2;
  static constexpr int kGroups = kSteps / kGroupSteps;
  // Number of steps whose products are scaled together.
  static constexpr int kPartSteps = kScales == ScaleKind::kOperandBytes ? kSteps : kGroupSteps;
  // The factor by which the upper row's operands are too large.
  static constexpr float kUpper = kQuants == QuantKind::kPlanes ? 16.0f : 1.0f;
  // The final factor of a lower row's sums.
  static constexpr float kUnit = (kQuants == QuantKind::kE4m3 ? 0x1p8f : 0x1p24f) / kF16Scale;
};

// The scales of half a unit for the two rows of a lane.
template <LinearFormat kFormat, ScaleKind kKind = GroupedTraits<kFormat>::kScales>
struct GroupedScales;

// For integer formats: returns the address of the lane's scales.
template <LinearFormat kFormat>
__device__ __forceinline__ uint32_t lane_scales(uint32_t unit, int half, int lane, int bytes) {
  return unit + quant_bytes(kFormat) + (half * 8 + (lane >> 2)) * bytes;
}

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kHalves> {
  using Traits = GroupedTraits<kFormat>;
  uint32_t scales[Traits::kGroups];
  uint32_t minima[Traits::kHasMin ? Traits::kGroups : 1];

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    const uint32_t at = lane_scales<kFormat>(unit, half, lane, Traits::kGroups * 4);
    load_shared_words(at, scales);
    if constexpr (Traits::kHasMin) load_shared_words(at + Traits::kGroups * 64, minima);
  }
  __device__ __forceinline__ float2 of_part(int part) const { return widen_halves(scales[part]); }
  __device__ __forceinline__ void min_operand(uint32_t (&a)[4], int group) const {
    a[0] = a[2] = __byte_perm(minima[group], 0, 0x1010);
    a[1] = a[3] = __byte_perm(minima[group], 0, 0x3232);
  }
  __device__ __forceinline__ float2 of_low() const {
    return make_float2(0x1p-24f, 0x1p-24f * Traits::kUpper);
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kPartBytes> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kWords = Traits::kGroups / 2;
  uint32_t scales[kWords];
  uint32_t d;

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    load_shared_words(lane_scales<kFormat>(unit, half, lane, kWords * 4), scales);
    d = load_shared_constant_4(lane_scales<kFormat>(unit, half, lane, 4) + kWords * 64);
  }
  __device__ __forceinline__ float2 of_part(int part) const {
    const float2 unit = widen_halves(d);
    const uint32_t word = scales[part / 2];
    return make_float2(unit.x * byte_minus_128(word, part % 2 * 2),
                       unit.y * byte_minus_128(word, part % 2 * 2 + 1));
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kOperandBytes> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kWords = Traits::kGroups / 2;
  uint32_t scales[kWords];
  uint32_t minima[kWords];
  uint32_t d, dmin;

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    const uint32_t at = lane_scales<kFormat>(unit, half, lane, kWords * 4);
    load_shared_words(at, scales);
    load_shared_words(at + kWords * 64, minima);
    const uint32_t of_unit = lane_scales<kFormat>(unit, half, lane, 4) + kWords * 128;
    d = load_shared_constant_4(of_unit);
    dmin = load_shared_constant_4(of_unit + 64);
  }
  __device__ __forceinline__ float2 of_part(int) const { return widen_halves(d); }
  // Returns the integer scale of a row, twice, as f16: 1,024 plus an integer has the integer in its
  // low byte.
  __device__ __forceinline__ uint32_t multiplier(int group, int row) const {
    const uint32_t pair =
        __byte_perm(scales[group / 2], 0x64646464u, 0x4040 + (group % 2 * 2 + row) * 0x0101);
    return subtract_f16x2(pair, 0x64006400u);
  }
  __device__ __forceinline__ void min_operand(uint32_t (&a)[4], int group) const {
    a[0] = a[2] = __byte_perm(minima[group / 2], 0, 0x4040 + group % 2 * 2 * 0x0101);
    a[1] = a[3] = __byte_perm(minima[group / 2], 0, 0x4040 + (group % 2 * 2 + 1) * 0x0101);
  }
  __device__ __forceinline__ float2 of_low() const {
    const float2 unit = widen_halves(dmin);
    return make_float2(-unit.x, -Traits::kUpper * unit.y);
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kFloats> {
  float2 scales;
  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane)
      : scales(load_shared_pair(lane_scales<kFormat>(unit, half, lane, 8))) {}
  __device__ __forceinline__ float2 of_part(int) const { return scales; }
};

// A lane's quants of 64 inputs of half a unit.
template <LinearFormat kFormat, QuantKind kKind = GroupedTraits<kFormat>::kQuants>
struct GroupedQuants;

template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kBytes> {
  uint32_t words[8];

  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int) {
    const uint32_t at = unit + half * 1024 + lane * 16;
    const uint4 v = load_shared_16(at), w = load_shared_16(at + 512);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    words[4] = w.x, words[5] = w.y, words[6] = w.z, words[7] = w.w;
  }
  __device__ __forceinline__ uint32_t last() const { return words[7]; }
  // Returns the operand of 16 inputs, step `step` of the 64.
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = words[step * 2 + i];
      a[i * 2] = subtract_f16x2(__byte_perm(word, 0, 0x4140), kZeros);
      a[i * 2 + 1] = subtract_f16x2(__byte_perm(word, 0, 0x4342), kZeros);
    }
  }

 private:
  static constexpr uint32_t kZeros = GroupedTraits<kFormat>::kZero * 0x00010001u;
};

// The e4m3 quants. Half a word has a number of the lower and a number of the upper row. The lower
// row's has the bits of an f16, sign in bit 15, 4 bits of exponent and 3 of mantissa from bit 7 on:
// it is 2^-8 times the e4m3. The upper row has its sign in bit 14 and its other bits from bit 0 on.
template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kE4m3> {
  uint32_t words[8];

  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int) {
    const uint32_t at = unit + half * 1024 + lane * 16;
    const uint4 v = load_shared_16(at), w = load_shared_16(at + 512);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    words[4] = w.x, words[5] = w.y, words[6] = w.z, words[7] = w.w;
  }
  __device__ __forceinline__ uint32_t last() const { return words[7]; }
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = words[step * 2 + i];
      a[i * 2] = word & 0xbf80bf80u;
      a[i * 2 + 1] = (word << 1 & 0x80008000u) | (word << 7 & 0x3f803f80u);
    }
  }
};

template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kPlanes> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kHighBits = Traits::kBits - 4;
  uint32_t low[4];
  uint32_t high[kHighBits == 0 ? 1 : kHighBits];

  // `quad` is the number of the 64 inputs within the unit.
  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int quad) {
    const int place = half * 2 + quad;
    load_shared_words(unit + place * 512 + lane * 16, low);
    if constexpr (kHighBits > 0) {
      load_shared_words(unit + 2048 + (place * 32 + lane) * (kHighBits * 4), high);
    }
  }
  __device__ __forceinline__ uint32_t last() const { return kHighBits > 0 ? high[0] : low[3]; }
  // Returns the quants of 16 inputs; those of the upper row are 16 times too large.
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
    const uint32_t word = low[step];
    a[0] = word & 0x000f000fu;
    a[1] = word & 0x00f000f0u;
    a[2] = word >> 8 & 0x000f000fu;
    a[3] = word >> 8 & 0x00f000f0u;
    if constexpr (kHighBits > 0) {
      constexpr int kStepsOfWord = 4 / kHighBits;
      constexpr uint32_t kMask = ((1u << kHighBits) - 1) * 0x00010001u;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t bits = high[step / kStepsOfWord];
        const int from = (step % kStepsOfWord * 4 + i) * kHighBits;
        const int to = i % 2 == 0 ? 4 : 8;
        a[i] |= (from > to ? bits >> (from - to) : bits << (to - from)) & kMask << to;
      }
    }
    if constexpr (Traits::kZero != 0) {
      constexpr uint32_t kZeros = Traits::kZero * 0x00010001u;
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = subtract_f16x2(a[i], i % 2 == 0 ? kZeros : kZeros * 16);
    }
  }
};

// Returns the operand of step `step` of a unit, from its quants.
template <LinearFormat kFormat>
__device__ __forceinline__ void load_operand(uint32_t (&a)[4], const GroupedQuants<kFormat>& quants,
                                             const GroupedScales<kFormat>& scales, int step) {
  using Traits = GroupedTraits<kFormat>;
  quants.operand(a, step % 4);
  if constexpr (Traits::kScales == ScaleKind::kOperandBytes) {
    const int group = step / Traits::kGroupSteps;
    const uint32_t lower = scales.multiplier(group, 0), upper = scales.multiplier(group, 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = multiply_f16x2(a[i], i % 2 == 0 ? lower : upper);
  }
}

// Turns sums into numbers, once all products have been added.
template <LinearFormat kFormat>
__device__ __forceinline__ void finish_sums_of(float (&sums)[4]) {
  using Traits = GroupedTraits<kFormat>;
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] *= i < 2 ? Traits::kUnit : Traits::kUnit / Traits::kUpper;
}

#endif

}  // namespace forerun::cuda
