// Codecs of K-quants: 256 weights in groups of 16 or 32, with a small integer scale (and min) per
// group and f16 scales per block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "checkpoint/blocks/decode_blocks.h"

namespace forerun::block_codecs {

// Reads two bits per weight: 32 bytes hold weights i, i + 32, i + 64 and i + 96 in the bits of byte
// i, the lowest first; 64 bytes hold 256 weights. They become the bits of q from `shift` on.
inline void or_bit_pairs(const uint8_t* from, int32_t shift, uint8_t* q) {
  for (int32_t half = 0; half < 2; ++half, from += 32) {
    for (int32_t pair = 0; pair < 4; ++pair, q += 32) {
      for (int32_t i = 0; i < 32; ++i) {
        q[i] = static_cast<uint8_t>(q[i] | (((from[i] >> (2 * pair)) & 3) << shift));
      }
    }
  }
}

// Reads one bit per weight: bit b of byte i < 32 belongs to weight 32 b + i.
inline void or_single_bits(const uint8_t* from, int32_t shift, uint8_t* q) {
  for (int32_t bit = 0; bit < 8; ++bit, q += 32) {
    for (int32_t i = 0; i < 32; ++i) {
      q[i] = static_cast<uint8_t>(q[i] | (((from[i] >> bit) & 1) << shift));
    }
  }
}

// A block has 16 bytes with a scale in the low half and a min in the high half, 64 bytes of bit
// pairs, d and dmin.
struct Q2_K {
  static constexpr BlockLayout kLayout{
      .bits = 2, .zero = 0, .group = 16, .has_min = true, .scale_low = 0, .scale_high = 15};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    for (int32_t group = 0; group < 16; ++group) {
      to.scale[group] = static_cast<int8_t>(block[group] & 0xf);
      to.min[group] = static_cast<int8_t>(block[group] >> 4);
    }
    to.d = read_u16(block + 80);
    to.dmin = read_u16(block + 82);
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    std::fill_n(q, 256, uint8_t{0});
    or_bit_pairs(block + 16, 0, q);
  }
};

// A block has 32 bytes of third bits, 64 bytes of bit pairs, 12 bytes of 6-bit scales, and d. The
// format's own description subtracts 4 if the third bit is 0, which equals q - 4. Scales are stored
// with 32 added.
struct Q3_K {
  static constexpr BlockLayout kLayout{
      .bits = 3, .zero = 4, .group = 16, .scale_low = -32, .scale_high = 31};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    // Scales j and j + 8 are the halves of byte j < 8. Byte 8 + j, of bytes 8 to 11, holds two more
    // bits of scales j, j + 4, j + 8 and j + 12, the lowest first.
    const uint8_t* scales = block + 96;
    for (int32_t group = 0; group < 16; ++group) {
      const int32_t low = (scales[group % 8] >> (4 * (group / 8))) & 0xf;
      const int32_t high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
      to.scale[group] = static_cast<int8_t>((low | (high << 4)) - 32);
      to.min[group] = 0;
    }
    to.d = read_u16(block + 108);
    to.dmin = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    std::fill_n(q, 256, uint8_t{0});
    or_bit_pairs(block + 32, 0, q);
    or_single_bits(block, 2, q);
  }
};

// Reads eight 6-bit scales and mins from 12 bytes. The low 6 bits of bytes 0 to 3 are scales 0 to
// 3, those of bytes 4 to 7 mins 0 to 3. Bytes 8 to 11 hold the low 4 bits of scales and mins 4 to
// 7; the two high bits of bytes 0 to 7 are their high bits.
inline void read_scales_and_mins(const uint8_t* from, BlockFields& to) {
  uint32_t words[3];  // four groups each
  std::memcpy(words, from, sizeof(words));
  const auto store = [](uint32_t low, uint32_t high, int8_t* four) {
    const uint32_t word = low | high;
    std::memcpy(four, &word, sizeof(word));
  };
  store(words[0] & 0x3f3f3f3fu, 0, to.scale);
  store(words[1] & 0x3f3f3f3fu, 0, to.min);
  store(words[2] & 0x0f0f0f0fu, (words[0] >> 2) & 0x30303030u, to.scale + 4);
  store((words[2] >> 4) & 0x0f0f0f0fu, (words[1] >> 2) & 0x30303030u, to.min + 4);
}

// A block has d, dmin, 12 bytes of scales and mins, and 128 bytes: 32 bytes hold one group in their
// low halves and the next in their high halves.
struct Q4_K {
  static constexpr BlockLayout kLayout{
      .bits = 4, .zero = 0, .group = 32, .has_min = true, .scale_low = 0, .scale_high = 63};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = read_u16(block + 2);
    read_scales_and_mins(block + 4, to);
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    for (int32_t pair = 0; pair < 4; ++pair) {
      read_nibbles(block + 16 + 32 * pair, 32, q + 64 * pair);
    }
  }
};

// A block has the layout of Q4_K, with 32 bytes of fifth bits before the low bits.
struct Q5_K {
  static constexpr BlockLayout kLayout{
      .bits = 5, .zero = 0, .group = 32, .has_min = true, .scale_low = 0, .scale_high = 63};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = read_u16(block + 2);
    read_scales_and_mins(block + 4, to);
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    for (int32_t pair = 0; pair < 4; ++pair) {
      read_nibbles(block + 48 + 32 * pair, 32, q + 64 * pair);
    }
    or_single_bits(block + 16, 4, q);
  }
};

// A block has 128 bytes of low bits (64 bytes hold 64 weights in their low halves and the next 64
// in their high halves), 64 bytes of bit pairs with the two high bits, 16 signed scales, and d.
struct Q6_K {
  static constexpr BlockLayout kLayout{
      .bits = 6, .zero = 32, .group = 16, .scale_low = -128, .scale_high = 127};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    for (int32_t group = 0; group < 16; ++group) {
      to.scale[group] = static_cast<int8_t>(block[192 + group]);
      to.min[group] = 0;
    }
    to.d = read_u16(block + 208);
    to.dmin = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    read_nibbles(block, 64, q);
    read_nibbles(block + 64, 64, q + 128);
    or_bit_pairs(block + 128, 4, q);
  }
};

}  // namespace forerun::block_codecs
