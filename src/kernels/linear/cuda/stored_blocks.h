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

// A stored block has quant(block, i): the quant of weight i, kZero if the weight is 0. d(block) and
// dmin(block) are bits of f16. With two levels, scale(block, group), kScaleZero more than its
// value, and minimum(block, group) are integers for groups of kGroup weights.
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

// The common fields of q4_K and q5_K: d, dmin, and 12 bytes with 8 scales and 8 minima of 6 bits.
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

// Returns weight i of a block, with the roundings of ggml's reference.
template <LinearFormat kFormat>
__device__ __forceinline__ float stored_weight(const uint8_t* block, int i) {
  using Block = StoredBlock<kFormat>;
  const auto half = [](uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  };
  const auto less = [](uint32_t value, int zero) {
    return static_cast<float>(static_cast<int>(value) - zero);
  };
  const float level = less(Block::quant(block, i), Block::kZero);
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
