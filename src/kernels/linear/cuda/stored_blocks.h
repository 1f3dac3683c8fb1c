// Blocks of GGUF files, read on a GPU: a struct for each grouped format (linear/cuda/
// unit_formats.h) that is stored so. Device code; included by linear/cuda/pack_grouped.cu alone.
// The layouts are those of checkpoint/blocks.
#pragma once

#include <cstdint>

#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {

// Two bytes at any address, the first one lowest.
__device__ __forceinline__ uint32_t two_bytes(const uint8_t* from) {
  return from[0] | uint32_t{from[1]} << 8;
}
// Nibble `index` of bytes of which each holds one of the first and one of the last `half` nibbles.
__device__ __forceinline__ uint32_t nibble_of(const uint8_t* from, int half, int index) {
  return index < half ? from[index] & 15u : uint32_t{from[index - half]} >> 4;
}

// quant(block, i): the quant of weight i of a block. d(block), dmin(block): bits of f16. Two
// levels: scale(block, group) and minimum(block, group), integers.
template <LinearFormat kFormat>
struct StoredBlock;

template <>
struct StoredBlock<LinearFormat::kQ8_0> {
  static constexpr int kInputs = 32, kBytes = 34;
  static __device__ uint32_t quant(const uint8_t* block, int i) { return block[2 + i] ^ 0x80u; }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kQ4_0> {
  static constexpr int kInputs = 32, kBytes = 18;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 2, 16, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
};

template <>
struct StoredBlock<LinearFormat::kQ4_1> {
  static constexpr int kInputs = 32, kBytes = 20;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    return nibble_of(block + 4, 16, i);
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block); }
  static __device__ uint32_t dmin(const uint8_t* block) { return two_bytes(block + 2); }
};

// What q4_K and q5_K have in common: d, dmin, and 12 bytes with 8 scales and 8 minima of 6 bits.
struct StoredTwoLevels {
  static constexpr int kInputs = 256;
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
  // 32 bytes hold a group in their low and the next in their high nibbles.
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
  static constexpr int kInputs = 256, kBytes = 210;
  static __device__ uint32_t quant(const uint8_t* block, int i) {
    const int half = i / 128, within = i % 128;
    return nibble_of(block + half * 64, 64, within) |
           (block[128 + half * 32 + within % 32] >> within / 32 * 2 & 3u) << 4;
  }
  static __device__ uint32_t d(const uint8_t* block) { return two_bytes(block + 208); }
  // Plus 128.
  static __device__ uint32_t scale(const uint8_t* block, int group) {
    return block[192 + group] ^ 0x80u;
  }
};

}  // namespace forerun::cuda
