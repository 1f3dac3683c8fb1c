// Copies the quants of stored blocks straight into the lanes of a grouped weight
// (kernels/linear/formats/grouped_formats.h), eight bytes at a time. The result is the same as
// unpacking the quants to bytes and packing those, but takes a fraction of the time.
//
// There is a struct for each stored format, with
//
//   Codec                       reads the block's scales (checkpoint/blocks)
//   kKernel                     the kernel format
//   store(block, lane)          writes all units of one block
//
// `lane` is the first byte of the channel's lane of the block's first unit. Below, "four k" are
// inputs 4k to 4k + 3 of a unit of 32, as in grouped_formats.h.
//
// All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "checkpoint/blocks/code_book_codecs.h"
#include "checkpoint/blocks/k_quant_codecs.h"
#include "checkpoint/blocks/simple_codecs.h"
#include "kernels/linear/formats/grouped_lanes.h"

namespace forerun::block_lanes {

using grouped_lanes::store_vector_lane;

// Returns the start of unit `unit` in a lane; a unit of `bits` bits has `bits` vectors.
constexpr int64_t unit_at(int64_t bits, int64_t unit) { return unit * bits * kVectorBytes; }

// Stores kBytes bytes of nibbles: their low nibbles are the low bits of inputs `first` to first +
// kBytes - 1, their high nibbles those of the next kBytes inputs. Eight bytes are fours 2k and 2k +
// 1 of two units: each pair becomes one word.
template <int64_t kBits, int64_t kBytes>
void store_nibbles(const uint8_t* from, int64_t first, std::byte* lane) {
  const auto store = [&](int64_t input, uint64_t nibbles) {
    store_vector_lane(lane + unit_at(kBits, input / 32), input % 32 / 8,
                      static_cast<uint32_t>(nibbles | (nibbles >> 28)));
  };
  for (int64_t byte = 0; byte < kBytes; byte += 8) {
    constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0fu;
    uint64_t bytes;
    std::memcpy(&bytes, from + byte, sizeof(bytes));
    store(first + byte, bytes & kLow);
    store(first + byte + kBytes, (bytes >> 4) & kLow);
  }
}

// Exchanges the bits of `low` that are `shift` above `mask` with the bits of `high` in `mask`.
inline void exchange(uint32_t& low, uint32_t& high, int shift, uint32_t mask) {
  const uint32_t differ = ((low >> shift) ^ high) & mask;
  high ^= differ;
  low ^= differ << shift;
}

// Stores 64 bytes of K-quants that hold two bits of 256 inputs: bits 2p of bytes 32h + i belong to
// input i of unit 4h + p. They go to two vectors of the unit, from kVector on: bits 2k of vector j
// belong to four 4j + k. So the four words of 16 bytes are transposed as 4 x 4 pairs of bits.
template <int64_t kBits, int64_t kVector>
void store_bit_pairs(const uint8_t* from, std::byte* lane) {
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t vector = 0; vector < 2; ++vector, from += 16) {
      uint32_t words[4];
      std::memcpy(words, from, sizeof(words));
      exchange(words[0], words[1], 2, 0x33333333u);
      exchange(words[2], words[3], 2, 0x33333333u);
      exchange(words[0], words[2], 4, 0x0f0f0f0fu);
      exchange(words[1], words[3], 4, 0x0f0f0f0fu);
      for (int64_t pair = 0; pair < 4; ++pair) {
        store_vector_lane(lane + unit_at(kBits, 4 * half + pair), kVector + vector, words[pair]);
      }
    }
  }
}

// Stores 32 bytes of K-quants that hold one bit of 256 inputs: bit u of byte i belongs to input i
// of unit u. It goes to bit k of the unit's vector kVector, where k is the input's four: the eight
// words are transposed as 8 x 8 bits.
template <int64_t kBits, int64_t kVector>
void store_single_bits(const uint8_t* from, std::byte* lane) {
  uint32_t words[8];
  std::memcpy(words, from, sizeof(words));
  for (int word = 0; word < 8; word += 2) exchange(words[word], words[word + 1], 1, 0x55555555u);
  for (int word : {0, 1, 4, 5}) exchange(words[word], words[word + 2], 2, 0x33333333u);
  for (int word = 0; word < 4; ++word) exchange(words[word], words[word + 4], 4, 0x0f0f0f0fu);
  for (int64_t unit = 0; unit < 8; ++unit) {
    store_vector_lane(lane + unit_at(kBits, unit), kVector, words[unit]);
  }
}

// Stores four bytes, in which bit i is the fifth bit of input i: every fourth bit goes to one byte.
inline void store_fifth_bits(const uint8_t* from, std::byte* lane) {
  uint32_t stored;
  std::memcpy(&stored, from, sizeof(stored));
  uint32_t word = 0;
  for (int byte = 0; byte < 4; ++byte) {
    uint32_t bits = (stored >> byte) & 0x11111111u;
    bits = (bits | (bits >> 3)) & 0x03030303u;
    bits = (bits | (bits >> 6)) & 0x000f000fu;
    bits = (bits | (bits >> 12)) & 0xffu;
    word |= bits << (8 * byte);
  }
  store_vector_lane(lane, 4, word);
}

// The lanes of formats with 32 inputs whose blocks end with 16 bytes of nibbles, from byte kOffset
// on.
template <class BlockCodec, WeightFormat kFormat, int64_t kOffset>
struct FourBits {
  using Codec = BlockCodec;
  static constexpr WeightFormat kKernel = kFormat;
  static void store(const uint8_t* block, std::byte* lane) {
    store_nibbles<4, 16>(block + kOffset, 0, lane);
  }
};
using Q4_0 = FourBits<block_codecs::Q4_0, WeightFormat::kQ4_0, 2>;
using Q4_1 = FourBits<block_codecs::Q4_1, WeightFormat::kQ4_1, 4>;
using Iq4Nl = FourBits<block_codecs::Iq4Nl, WeightFormat::kIq4Nl, 2>;
using Mxfp4 = FourBits<block_codecs::Mxfp4, WeightFormat::kMxfp4, 1>;

// The lanes of formats that also have fifth bits before the nibbles.
template <class BlockCodec, WeightFormat kFormat, int64_t kOffset>
struct FiveBits {
  using Codec = BlockCodec;
  static constexpr WeightFormat kKernel = kFormat;
  static void store(const uint8_t* block, std::byte* lane) {
    store_nibbles<5, 16>(block + kOffset + 4, 0, lane);
    store_fifth_bits(block + kOffset, lane);
  }
};
using Q5_0 = FiveBits<block_codecs::Q5_0, WeightFormat::kQ5_0, 2>;
using Q5_1 = FiveBits<block_codecs::Q5_1, WeightFormat::kQ5_1, 4>;

struct Q8_0 {
  using Codec = block_codecs::Q8_0;
  static constexpr WeightFormat kKernel = WeightFormat::kQ8_0;
  static void store(const uint8_t* block, std::byte* lane) {
    uint32_t fours[8];
    std::memcpy(fours, block + 2, sizeof(fours));
    for (int64_t four = 0; four < 8; ++four) {
      store_vector_lane(lane, four, fours[four] ^ 0x80808080u);  // + 128
    }
  }
};

struct Q2_K {
  using Codec = block_codecs::Q2_K;
  static constexpr WeightFormat kKernel = WeightFormat::kQ2_K;
  static void store(const uint8_t* block, std::byte* lane) {
    store_bit_pairs<2, 0>(block + 16, lane);
  }
};

struct Q3_K {
  using Codec = block_codecs::Q3_K;
  static constexpr WeightFormat kKernel = WeightFormat::kQ3_K;
  static void store(const uint8_t* block, std::byte* lane) {
    store_bit_pairs<3, 0>(block + 32, lane);
    store_single_bits<3, 2>(block, lane);
  }
};

struct Q4_K {
  using Codec = block_codecs::Q4_K;
  static constexpr WeightFormat kKernel = WeightFormat::kQ4_K;
  static void store(const uint8_t* block, std::byte* lane) {
    for (int64_t pair = 0; pair < 4; ++pair) {
      store_nibbles<4, 32>(block + 16 + 32 * pair, 64 * pair, lane);
    }
  }
};

struct Q5_K {
  using Codec = block_codecs::Q5_K;
  static constexpr WeightFormat kKernel = WeightFormat::kQ5_K;
  static void store(const uint8_t* block, std::byte* lane) {
    for (int64_t pair = 0; pair < 4; ++pair) {
      store_nibbles<5, 32>(block + 48 + 32 * pair, 64 * pair, lane);
    }
    store_single_bits<5, 4>(block + 16, lane);
  }
};

struct Q6_K {
  using Codec = block_codecs::Q6_K;
  static constexpr WeightFormat kKernel = WeightFormat::kQ6_K;
  static void store(const uint8_t* block, std::byte* lane) {
    store_nibbles<6, 64>(block, 0, lane);
    store_nibbles<6, 64>(block + 64, 128, lane);
    store_bit_pairs<6, 4>(block + 128, lane);
  }
};

struct Iq4Xs {
  using Codec = block_codecs::Iq4Xs;
  static constexpr WeightFormat kKernel = WeightFormat::kIq4Xs;
  static void store(const uint8_t* block, std::byte* lane) {
    for (int64_t group = 0; group < 8; ++group) {
      store_nibbles<4, 16>(block + 8 + 16 * group, 32 * group, lane);
    }
  }
};

}  // namespace forerun::block_lanes
