// Readers of GGUF files' blocks on a GPU: a struct for each grouped format
// (linear/unit_formats.h) with stored blocks. Device code; only linear/cuda/pack_grouped.cu
// and embedding/cuda/embedding.cu include it. The layouts are those of checkpoint/blocks.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <utility>

#include "kernels/linear/unit_formats.h"

namespace forerun::cuda {

// Returns two bytes from any address, the first one lowest.
__device__ __forceinline__ uint32_t two_bytes(const uint8_t* from) {
  return from[0] | uint32_t{from[1]} << 8;
}
// Returns nibble `index`, where each byte holds one of the first and one of the last `half`
// nibbles.
__device__ __forceinline__ uint32_t nibble_of(const uint8_t* from, int half, int index) {
  return index < half ? from[index] & 15u : uint32_t{from[index - half]} >> 4;
}

// quant(block, i): the quant of weight i of a block, kZero where the weight is 0, or the index of
// its level(quant). d(block), dmin(block): bits of f16, or of bf16 with kHasBf16. Two levels:
// scale(block, group), kScaleZero more than it is, and minimum(block, group), integers, for groups
// of kGroup weights.
template <LinearFormat kFormat>
struct StoredBlock;

template <>
struct StoredBlock<LinearFormat::kQ8_0> {
  static constexpr int kInputs = 32, kBytes = 34, kZero = 128;
  static __device__ uint32_t quant(const uint8_t* block, int i) { return block[2 + i] ^ 0x80u; }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kQ4_0> {
  static constexpr int kInputs = 32, kBytes = 18, kZero = 8;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 2, 16, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kQ4_1> {
  static constexpr int kInputs = 32, kBytes = 20, kZero = 0;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 4, 16, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t dmin(const uint8_t* block) { return two_bytes(block + 2); }
};

// Bit i of 32 is the fifth bit of weight i.
__device__ __forceinline__ uint32_t fifth_bit(const uint8_t* from, int i) {
  return (from[i / 8] >> i % 8 & 1u) << 4;
}

template <>
struct StoredBlock<LinearFormat::kQ5_0> {
  static constexpr int kInputs = 32, kBytes = 22, kZero = 16;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 6, 16, i) | fifth_bit(block + 2, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kQ5_1> {
  static constexpr int kInputs = 32, kBytes = 24, kZero = 0;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 8, 16, i) | fifth_bit(block + 4, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t dmin(const uint8_t* block) { return two_bytes(block + 2); }
};

// The levels of IQ4.
__device__ constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

template <>
struct StoredBlock<LinearFormat::kIq4Nl> {
  static constexpr int kInputs = 32, kBytes = 18;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 2, 16, i);
  }
  static __device__ float level(uint32_t quant) { return kIq4Levels[quant]; }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kIq4Xs> {
  static constexpr int kInputs = 256, kBytes = 136, kGroup = 32, kScaleZero = 32;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 8 + i / 32 * 16, 16, i % 32);
  }
  static __device__ float level(uint32_t quant) { return kIq4Levels[quant]; }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t scale(const uint8_t* block, int group) {
    return (block[4 + group / 2] >> group % 2 * 4 & 15u) | (two_bytes(block + 2) >> group * 2 & 3u)
                                                               << 4;
  }
};

template <>
struct StoredBlock<LinearFormat::kMxfp4> {
  static constexpr int kInputs = 32, kBytes = 17;
  static constexpr bool kHasBf16 = true;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 1, 16, i);
  }
  // Exponents of 0 stand for magnitudes of 0 and 0.5.
  static __device__ float level(uint32_t quant) {
    const uint32_t exponent = quant >> 1 & 3u, mantissa = quant & 1u;
    const auto halves = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
    return quant < 8 ? 0.5f * static_cast<float>(halves) : -0.5f * static_cast<float>(halves);
  }
  // 2^(e - 127), the least of which has no exponent in bf16.
  static __device__ uint32_t d(const uint8_t* block) {
    return block[0] == 0 ? 0x40u : uint32_t{block[0]} << 7;
  }
};

// What q4_K and q5_K have in common: d, dmin, and 12 bytes with 8 scales and 8 minima of 6 bits.
struct StoredTwoLevels {
  static constexpr int kInputs = 256, kZero = 0, kGroup = 32, kScaleZero = 0;
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t dmin(const uint8_t* block) { return two_bytes(block + 2); }
  static __device__ uint32_t scale(const uint8_t* block, int group) {
    return group < 4 ? block[4 + group] & 63u
                     : (block[8 + group] & 15u) | (block[group] >> 6 & 3u) << 4;
  }
  static __device__ uint32_t minimum(const uint8_t* block, int group) {
    return group < 4 ? block[8 + group] & 63u
                     : (uint32_t{block[8 + group]} >> 4) | (block[4 + group] >> 6 & 3u) << 4;
  }
  // Returns low bits: 32 bytes hold a group in their low and the next in their high nibbles.
  static __device__ uint32_t low_bits(const uint8_t* nibbles, int i) {
    return nibble_of(nibbles + i / 64 * 32, 32, i % 64);
  }
};

template <>
struct StoredBlock<LinearFormat::kQ4_K> : StoredTwoLevels {
  static constexpr int kBytes = 144;
  static __device__ uint32_t quant(const uint8_t* block, int i) { return low_bits(block + 16, i); }
};

template <>
struct StoredBlock<LinearFormat::kQ5_K> : StoredTwoLevels {
  static constexpr int kBytes = 176;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return low_bits(block + 48, i) | (block[16 + i % 32] >> i / 32 & 1u) << 4;
  }
};

template <>
struct StoredBlock<LinearFormat::kQ6_K> {
  static constexpr int kInputs = 256, kBytes = 210, kZero = 32, kGroup = 16;
  static constexpr int kScaleZero = 128;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    const int half = i / 128, within = i % 128;
    return nibble_of(block + half * 64, 64, within) |
           (block[128 + half * 32 + within % 32] >> within / 32 * 2 & 3u) << 4;
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block + 208); }
  static __device__ uint32_t scale(const uint8_t* block, int group) {
    return block[192 + group] ^ 0x80u;
  }
};

// Weight i of a block: two bits of bytes of which each has those of four weights, 32 apart.
__device__ __forceinline__ uint32_t two_bits(const uint8_t* from, int i) {
  return from[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3u;
}

template <>
struct StoredBlock<LinearFormat::kQ3_K> {
  static constexpr int kInputs = 256, kBytes = 110, kZero = 4, kGroup = 16, kScaleZero = 32;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return two_bits(block + 32, i) | (block[i % 32] >> i / 32 & 1u) << 2;
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block + 108); }
  static __device__ uint32_t scale(const uint8_t* block, int group) {
    return nibble_of(block + 96, 8, group) | (block[104 + group % 4] >> group / 4 * 2 & 3u) << 4;
  }
};

template <>
struct StoredBlock<LinearFormat::kQ2_K> {
  static constexpr int kInputs = 256, kBytes = 84, kZero = 0, kGroup = 16, kScaleZero = 0;
  static __device__ uint32_t quant(const uint8_t* block, int i) { return two_bits(block + 16, i); }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block + 80); }
  static __device__ uint32_t dmin(const uint8_t* block) { return two_bytes(block + 82); }
  static __device__ uint32_t scale(const uint8_t* block, int group) { return block[group] & 15u; }
  static __device__ uint32_t minimum(const uint8_t* block, int group) { return block[group] >> 4; }
};

// The form that loaders give integers of other files (model/integer_blocks.h): d, a zero point from
// 0 to 16, then nibbles as in Q4_0.
template <>
struct StoredBlock<LinearFormat::kInt4Zeros> {
  static constexpr int kInputs = 32, kBytes = 19;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 3, 16, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t zero(const uint8_t* block) { return block[2]; }
};

// Weight i of a block, with the roundings of ggml's reference.
template <LinearFormat kFormat>
__device__ __forceinline__ float stored_weight(const uint8_t* block, int i) {
  using Block = StoredBlock<kFormat>;
  const auto half = [](uint32_t bits) {
    if constexpr (requires { Block::kHasBf16; }) return __uint_as_float(bits << 16);
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  };
  const auto less = [](uint32_t value, int zero) {
    return static_cast<float>(static_cast<int>(value) - zero);
  };
  const auto level_of = [&less, block](uint32_t quant) {
    if constexpr (requires { Block::zero(block); }) {
      return less(quant, static_cast<int>(Block::zero(block)));
    } else if constexpr (requires { Block::level(quant); }) {
      return Block::level(quant);
    } else {
      return less(quant, Block::kZero);
    }
  };
  const float level = level_of(Block::quant(block, i));
  float scale = half(Block::d(block));
  if constexpr (requires { Block::kScaleZero; }) {
    scale = __fmul_rn(scale, less(Block::scale(block, i / Block::kGroup), Block::kScaleZero));
  }
  const float product = __fmul_rn(scale, level);
  if constexpr (requires { Block::minimum(block, 0); }) {
    const auto minimum = static_cast<float>(Block::minimum(block, i / Block::kGroup));
    return __fsub_rn(product, __fmul_rn(half(Block::dmin(block)), minimum));
  } else if constexpr (requires { Block::dmin(block); }) {
    return __fadd_rn(product, half(Block::dmin(block)));
  } else {
    return product;
  }
}

// Calls visit.operator()<kFormat>() for each format that files store in blocks.
inline constexpr size_t kBlockFormatCount =
    static_cast<size_t>(LinearFormat::kFp8) - static_cast<size_t>(kFirstGrouped);
template <class Visit>
void each_block_format(const Visit& visit) {
  const auto visit_all = [&visit]<size_t... kIndices>(std::index_sequence<kIndices...>) {
    (visit.template operator()<kUnitFormats[kFirstGrouped + kIndices].format>(), ...);
  };
  visit_all(std::make_index_sequence<kBlockFormatCount>());
}

}  // namespace forerun::cuda
