// Operands of the tensor core for weights of the grouped formats (linear/unit_formats.h): small
// integers with scales that 16 or 32 inputs share, and floats of 4 and 8 bits. Device code; only
// the kernels include it.
//
// A unit has two halves of 16 outputs, each in the place of the tensor core's 16-row operand; a
// lane has two outputs of a half, the lower and the upper row of group g = lane / 4. Quants lie
// [half][64 inputs][lane]:
//
//   8 bits, e4m3  32 bytes per lane: two words for each 16 inputs, of inputs 0 to 7 and 8 to 15
//   4, 5, 6 bits  16 bytes per lane: a word for each 16 inputs with the low four bits,
//                 [pair][inputs 0 to 7, 8 to 15][row]; then, in a section of its own, 4 or 8 bytes
//                 a lane with the high bits, [pair][16 inputs][inputs 0 to 7, 8 to 15][row]
//   2, 3 bits     8 bytes a lane: a word for each 32 inputs with the low two bits, [pair][16
//                 inputs][row][inputs 0 to 7, 8 to 15]; then the third bits like fifth bits
//   code book     like 4 bits, but [inputs 0 to 7, 8 to 15][row][pair]
//   e2m1          a word for each 16 inputs, [pair]; GroupedQuants has the bits of a half
//
// Then, each [half][g][group of inputs][row]:
//
//   q8_0, q4_0, q5_0, iq4_nl  f16 scales
//   q4_1, q5_1                f16 scales; f16 minima
//   int4_zeros                f16 scales; a byte a group: zero points
//   mxfp4                     bf16 scales
//   q4_K, q5_K                a byte a group: integer scales; a byte a group: integer minima; f16
//                             d; f16 dmin
//   q2_K                      a byte a group: the scale in the low, the minimum in the high nibble;
//                             f16 d; f16 dmin
//   q3_K, q6_K, iq4_xs        a byte a group: integer scales plus 128; f16 d
//   fp8                       f32 scales
//
// and zeros up to the size of the unit.
//
// Bits 0 to 10 of an f16 count units of 2^-24, so an integer below 2,048 is a number in place. The
// upper row's quants of 2 to 6 bits stay four bits up: they and their sums are 16 times too large
// until finish(). Operands are exact. Where groups have scales of their own, each group's products
// are one part, which its scale multiplies in f32. q2_K to q5_K need no parts: a quant times its
// group's integer scale has at most 11 bits. Minima are operands of a product of their own (part
// `low`) with the sums of their groups' activations (linear/cuda/group_sums.h): a lane has those of
// groups 2t and 2t + 1, t = lane % 4.
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
enum class QuantKind : uint8_t { kBytes, kPlanes, kIq4, kE2m1, kE4m3 };
// The storage of a format's scales. A part has one scale; an operand is a product with its own.
enum class ScaleKind : uint8_t {
  kHalves,
  kHalvesZeros,
  kBf16s,
  kPartBytes,
  kOperandBytes,
  kOperandNibbles,
  kFloats,
};

struct GroupedShape {
  QuantKind quants;
  ScaleKind scales;
  int group;  // inputs that share a scale
  int zero;   // zero point, which is subtracted from a quant
};
constexpr GroupedShape grouped_shape(LinearFormat format) {
  switch (format) {
    case LinearFormat::kQ8_0:
      return {QuantKind::kBytes, ScaleKind::kHalves, 32, 128};
    case LinearFormat::kQ4_0:
      return {QuantKind::kPlanes, ScaleKind::kHalves, 32, 8};
    case LinearFormat::kQ5_0:
      return {QuantKind::kPlanes, ScaleKind::kHalves, 32, 16};
    case LinearFormat::kQ4_1:
    case LinearFormat::kQ5_1:
      return {QuantKind::kPlanes, ScaleKind::kHalves, 32, 0};
    case LinearFormat::kQ2_K:
      return {QuantKind::kPlanes, ScaleKind::kOperandNibbles, 16, 0};
    case LinearFormat::kQ3_K:
      return {QuantKind::kPlanes, ScaleKind::kOperandBytes, 16, 4};
    case LinearFormat::kQ4_K:
    case LinearFormat::kQ5_K:
      return {QuantKind::kPlanes, ScaleKind::kOperandBytes, 32, 0};
    case LinearFormat::kQ6_K:
      return {QuantKind::kPlanes, ScaleKind::kPartBytes, 16, 32};
    case LinearFormat::kIq4Nl:
      return {QuantKind::kIq4, ScaleKind::kHalves, 32, 128};
    case LinearFormat::kIq4Xs:
      return {QuantKind::kIq4, ScaleKind::kPartBytes, 32, 128};
    case LinearFormat::kInt4Zeros:
      return {QuantKind::kPlanes, ScaleKind::kHalvesZeros, 32, 0};
    case LinearFormat::kMxfp4:
      return {QuantKind::kE2m1, ScaleKind::kBf16s, 32, 0};
    default:
      return {QuantKind::kE4m3, ScaleKind::kFloats, 64, 0};  // fp8
  }
}

template <LinearFormat kFormat>
struct GroupedTraits {
  static constexpr GroupedShape kShape = grouped_shape(kFormat);
  static constexpr int kBits = unit_format(kFormat).bits;
  static constexpr QuantKind kQuants = kShape.quants;
  static constexpr ScaleKind kScales = kShape.scales;
  static constexpr int kZero = kShape.zero;
  static constexpr bool kHasMin = min_groups(kFormat) > 0;
  // Planes: bits of a quant in the first section and in the second.
  static constexpr int kLowBits = kBits < 4 ? 2 : 4;
  static constexpr int kHighBits = kBits - kLowBits;
  static constexpr int kSteps = unit_inputs(kFormat) / 16;
  static constexpr int kQuads = kSteps / 4;  // 64 inputs each
  static constexpr int kGroupSteps = kShape.group / 16;
  static constexpr int kGroups = kSteps / kGroupSteps;
  static_assert(!kHasMin || (min_groups(kFormat) == kGroups && kSteps == 8));
  static constexpr bool kScalesOperands =
      kScales == ScaleKind::kOperandBytes || kScales == ScaleKind::kOperandNibbles;
  // What is added to integer scales where they are stored: none are negative beside minima.
  static constexpr int kScaleZero = kHasMin ? 0 : 128;
  // Steps whose products are scaled together.
  static constexpr int kPartSteps = kScalesOperands ? kSteps : kGroupSteps;
  // The factor by which the upper row's operands are too large.
  static constexpr float kUpper = kQuants == QuantKind::kPlanes ? 16.0f : 1.0f;
  // The factor by which a lower row's sums are multiplied in the end.
  static constexpr float kUnit = (kQuants == QuantKind::kE4m3   ? 0x1p8f
                                  : kQuants == QuantKind::kE2m1 ? 0x1p14f
                                                                : 0x1p24f) /
                                 kF16Scale;
};

// The scales of half a unit for the two rows of a lane.
template <LinearFormat kFormat, ScaleKind kKind = GroupedTraits<kFormat>::kScales>
struct GroupedScales;

// For integer formats: returns the address of the lane's scales.
template <LinearFormat kFormat>
__device__ __forceinline__ uint32_t lane_scales(uint32_t unit, int half, int lane, int bytes) {
  return unit + quant_bytes(kFormat) + (half * 8 + (lane >> 2)) * bytes;
}

// Returns which two groups of a unit's inputs the lane has minima of. The sums of lanes without
// groups of their own are 0.
template <LinearFormat kFormat>
__device__ __forceinline__ int pair_of_lane(int lane) {
  return lane & (GroupedTraits<kFormat>::kGroups / 2 - 1);
}

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kHalves> {
  using Traits = GroupedTraits<kFormat>;
  uint32_t scales[Traits::kGroups];
  uint32_t minima[2];

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    const uint32_t at = lane_scales<kFormat>(unit, half, lane, Traits::kGroups * 4);
    load_shared_words(at, scales);
    if constexpr (Traits::kHasMin) {
      load_shared_words(at + Traits::kGroups * 64 + pair_of_lane<kFormat>(lane) * 8, minima);
    }
  }
  __device__ __forceinline__ float2 of_part(int part) const { return widen_halves(scales[part]); }
  // The minima of the lane's groups, twice: the sums' rounded values and what these lack have the
  // same.
  __device__ __forceinline__ void min_operand(uint32_t (&a)[4]) const {
    a[0] = a[2] = __byte_perm(minima[0], minima[1], 0x5410);
    a[1] = a[3] = __byte_perm(minima[0], minima[1], 0x7632);
  }
  __device__ __forceinline__ float2 of_low() const {
    return make_float2(0x1p-24f, 0x1p-24f * Traits::kUpper);
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kHalvesZeros> {
  using Traits = GroupedTraits<kFormat>;
  uint32_t scales[Traits::kGroups];
  uint32_t zeros[Traits::kGroups / 2];

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    load_shared_words(lane_scales<kFormat>(unit, half, lane, Traits::kGroups * 4), scales);
    load_shared_words(
        lane_scales<kFormat>(unit, half, lane, Traits::kGroups * 2) + Traits::kGroups * 64, zeros);
  }
  __device__ __forceinline__ float2 of_part(int part) const { return widen_halves(scales[part]); }
  // Subtracts a group's zero points from its quants, which are integers in place.
  __device__ __forceinline__ void subtract_zeros(uint32_t (&a)[4], int group) const {
    const int first = group % 2 * 2;
    const uint32_t lower = __byte_perm(zeros[group / 2], 0, 0x4040 + first * 0x0101);
    const uint32_t upper = __byte_perm(zeros[group / 2], 0, 0x4040 + (first + 1) * 0x0101) << 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = subtract_f16x2(a[i], i % 2 == 0 ? lower : upper);
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kBf16s> {
  using Traits = GroupedTraits<kFormat>;
  uint32_t scales[Traits::kGroups];

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    load_shared_words(lane_scales<kFormat>(unit, half, lane, Traits::kGroups * 4), scales);
  }
  __device__ __forceinline__ float2 of_part(int part) const {
    return make_float2(__uint_as_float(scales[part] << 16),
                       __uint_as_float(scales[part] & 0xffff0000u));
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

// Returns 1,024 plus a byte of `words`, which have two rows of a group, twice, as f16.
template <int kWords>
__device__ __forceinline__ uint32_t byte_twice(const uint32_t (&words)[kWords], int group,
                                               int row) {
  return __byte_perm(words[group / 2], 0x64646464u, 0x4040 + (group % 2 * 2 + row) * 0x0101);
}
// Returns what is above 1,024 + kZero, which has kZero in its low byte.
template <int kZero>
__device__ __forceinline__ uint32_t integers_of(uint32_t pair) {
  return subtract_f16x2(pair, (0x6400u + kZero) * 0x00010001u);
}

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kOperandBytes> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kWords = Traits::kGroups / 2;
  uint32_t scales[kWords];
  uint32_t minima;
  uint32_t d, dmin;

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    const uint32_t at = lane_scales<kFormat>(unit, half, lane, kWords * 4);
    load_shared_words(at, scales);
    if constexpr (Traits::kHasMin) {
      minima = load_shared_constant_4(at + kWords * 64 + pair_of_lane<kFormat>(lane) * 4);
    }
    const uint32_t of_unit =
        lane_scales<kFormat>(unit, half, lane, 4) + kWords * (Traits::kHasMin ? 128 : 64);
    d = load_shared_constant_4(of_unit);
    if constexpr (Traits::kHasMin) dmin = load_shared_constant_4(of_unit + 64);
  }
  __device__ __forceinline__ float2 of_part(int) const { return widen_halves(d); }
  // The integer scale of a row, twice, as f16.
  __device__ __forceinline__ uint32_t multiplier(int group, int row) const {
    return integers_of<Traits::kScaleZero>(byte_twice(scales, group, row));
  }
  __device__ __forceinline__ void min_operand(uint32_t (&a)[4]) const {
    a[0] = a[2] = __byte_perm(minima, 0, 0x4240);
    a[1] = a[3] = __byte_perm(minima, 0, 0x4341);
  }
  __device__ __forceinline__ float2 of_low() const {
    const float2 unit = widen_halves(dmin);
    return make_float2(-unit.x, -Traits::kUpper * unit.y);
  }
};

template <LinearFormat kFormat>
struct GroupedScales<kFormat, ScaleKind::kOperandNibbles> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kWords = Traits::kGroups / 2;
  uint32_t pairs[kWords];
  uint32_t pairs_of_lane;
  uint32_t d, dmin;

  __device__ __forceinline__ GroupedScales(uint32_t unit, int half, int lane) {
    const uint32_t at = lane_scales<kFormat>(unit, half, lane, kWords * 4);
    load_shared_words(at, pairs);
    pairs_of_lane = load_shared_constant_4(at + pair_of_lane<kFormat>(lane) * 4);
    const uint32_t of_unit = lane_scales<kFormat>(unit, half, lane, 4) + kWords * 64;
    d = load_shared_constant_4(of_unit);
    dmin = load_shared_constant_4(of_unit + 64);
  }
  __device__ __forceinline__ float2 of_part(int) const { return widen_halves(d); }
  __device__ __forceinline__ uint32_t multiplier(int group, int row) const {
    return integers_of<0>(byte_twice(pairs, group, row) & 0xff0fff0fu);
  }
  // Minima stay four bits up.
  __device__ __forceinline__ void min_operand(uint32_t (&a)[4]) const {
    a[0] = a[2] = __byte_perm(pairs_of_lane, 0, 0x4240) & 0x00f000f0u;
    a[1] = a[3] = __byte_perm(pairs_of_lane, 0, 0x4341) & 0x00f000f0u;
  }
  __device__ __forceinline__ float2 of_low() const {
    const float2 unit = widen_halves(dmin);
    return make_float2(-0x1p-4f * unit.x, -0x1p-4f * Traits::kUpper * unit.y);
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

// Loads a lane's low bits of 64 inputs, number `place` of those of the unit.
template <int kWords>
__device__ __forceinline__ void load_low_bits(uint32_t (&low)[kWords], uint32_t unit, int place,
                                              int lane) {
  load_shared_words(unit + (place * 32 + lane) * (kWords * 4), low);
}

template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kPlanes> {
  using Traits = GroupedTraits<kFormat>;
  static constexpr int kLowBits = Traits::kLowBits, kHighBits = Traits::kHighBits;
  uint32_t low[kLowBits];
  uint32_t high[kHighBits == 0 ? 1 : kHighBits];

  // `quad` is the number of the 64 inputs within the unit.
  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int quad) {
    const int place = half * Traits::kQuads + quad;
    load_low_bits(low, unit, place, lane);
    if constexpr (kHighBits > 0) {
      constexpr int kLowBytes = 2 * Traits::kQuads * 32 * kLowBits * 4;
      load_shared_words(unit + kLowBytes + (place * 32 + lane) * (kHighBits * 4), high);
    }
  }
  __device__ __forceinline__ uint32_t last() const {
    return kHighBits > 0 ? high[0] : low[kLowBits - 1];
  }
  // The quants of 16 inputs; those of the upper row are 16 times too large.
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
    if constexpr (kLowBits == 4) {
      const uint32_t word = low[step];
      a[0] = word & 0x000f000fu;
      a[1] = word & 0x00f000f0u;
      a[2] = word >> 8 & 0x000f000fu;
      a[3] = word >> 8 & 0x00f000f0u;
    } else {
      const uint32_t first = low[step / 2] >> step % 2 * 8, second = first >> 2;
      a[0] = first & 0x00030003u;
      a[1] = first & 0x00300030u;
      a[2] = second & 0x00030003u;
      a[3] = second & 0x00300030u;
    }
    if constexpr (kHighBits > 0) {
      constexpr int kStepsOfWord = 4 / kHighBits;
      constexpr uint32_t kMask = ((1u << kHighBits) - 1) * 0x00010001u;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t bits = high[step / kStepsOfWord];
        const int from = (step % kStepsOfWord * 4 + i) * kHighBits;
        const int to = kLowBits + i % 2 * 4;
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

// A level is a byte of the code book, which it takes three permutations to find: one for indices
// below 8, one for the others, and one that chooses between both.
template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kIq4> {
  using Traits = GroupedTraits<kFormat>;
  // The levels of IQ4, plus kZero.
  static constexpr uint32_t kBook[4] = {0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5};
  uint32_t low[4];

  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int quad) {
    load_low_bits(low, unit, half * Traits::kQuads + quad, lane);
  }
  __device__ __forceinline__ uint32_t last() const { return low[3]; }
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
    constexpr uint32_t kZeros = Traits::kZero * 0x00010001u;
    const uint32_t index = low[step] & 0x77777777u;
    const uint32_t choice = (low[step] >> 1 & 0x44444444u) | 0x32103210u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t of_low = __byte_perm(kBook[0], kBook[1], index >> 16 * i);
      const uint32_t of_high = __byte_perm(kBook[2], kBook[3], index >> 16 * i);
      const uint32_t levels = __byte_perm(of_low, of_high, choice >> 16 * i);
      a[i * 2] = subtract_f16x2(__byte_perm(levels, 0, 0x4140), kZeros);
      a[i * 2 + 1] = subtract_f16x2(__byte_perm(levels, 0, 0x4342), kZeros);
    }
  }
};

// Half a word has four numbers of e2m1. Sign in bit 15 and the rest from bit 9 on are 2^-14 times
// the number as f16; so is the first, and the second three bits further down. The signs of the
// third and fourth are in bits 14 and 13, the rest from bits 3 and 0 on.
template <LinearFormat kFormat>
struct GroupedQuants<kFormat, QuantKind::kE2m1> {
  using Traits = GroupedTraits<kFormat>;
  uint32_t low[4];

  __device__ __forceinline__ void load(uint32_t unit, int half, int lane, int quad) {
    load_low_bits(low, unit, half * Traits::kQuads + quad, lane);
  }
  __device__ __forceinline__ uint32_t last() const { return low[3]; }
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int step) const {
    constexpr uint32_t kSign = 0x80008000u, kRest = 0x0e000e00u;
    const uint32_t word = low[step];
    a[0] = word & (kSign | kRest);
    a[1] = word << 3 & (kSign | kRest);
    a[2] = (word << 1 & kSign) | (word << 6 & kRest);
    a[3] = (word << 2 & kSign) | (word << 9 & kRest);
  }
};

// The operand of step `step` of a unit, whose quants `quants` has.
template <LinearFormat kFormat>
__device__ __forceinline__ void load_operand(uint32_t (&a)[4], const GroupedQuants<kFormat>& quants,
                                             const GroupedScales<kFormat>& scales, int step) {
  using Traits = GroupedTraits<kFormat>;
  quants.operand(a, step % 4);
  if constexpr (Traits::kScales == ScaleKind::kHalvesZeros) {
    scales.subtract_zeros(a, step / Traits::kGroupSteps);
  }
  if constexpr (Traits::kScalesOperands) {
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
