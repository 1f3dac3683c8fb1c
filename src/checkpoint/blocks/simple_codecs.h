// Codecs of formats with 32 weights, one scale and, in Q4_1 and Q5_1, one minimum. Weight i < 16 is
// the low half of byte i, weight i + 16 the high half.
#pragma once

#include "checkpoint/blocks/decode_blocks.h"

namespace forerun::block_codecs {

// A block has d and 16 bytes.
struct Q4_0 {
  static constexpr BlockLayout kLayout{.bits = 4, .zero = 8, .group = 32};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = 0;
    to.scale[0] = 1;
    to.min[0] = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) { read_nibbles(block + 2, 16, q); }
};

// A block has d, m and 16 bytes.
struct Q4_1 {
  static constexpr BlockLayout kLayout{.bits = 4, .zero = 0, .group = 32, .has_min = true};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = read_u16(block + 2);
    to.scale[0] = 1;
    to.min[0] = -1;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) { read_nibbles(block + 4, 16, q); }
};

// Reads the fifth bits: bit i of 32 bits belongs to weight i.
inline void read_fifth_bits(const uint8_t* from, uint8_t* q) {
  for (int32_t i = 0; i < 32; ++i) {
    q[i] = static_cast<uint8_t>(q[i] | (((from[i / 8] >> (i % 8)) & 1) << 4));
  }
}

// A block has d, 32 fifth bits and 16 bytes.
struct Q5_0 {
  static constexpr BlockLayout kLayout{.bits = 5, .zero = 16, .group = 32};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = 0;
    to.scale[0] = 1;
    to.min[0] = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    read_nibbles(block + 6, 16, q);
    read_fifth_bits(block + 2, q);
  }
};

// A block has d, m, 32 fifth bits and 16 bytes.
struct Q5_1 {
  static constexpr BlockLayout kLayout{.bits = 5, .zero = 0, .group = 32, .has_min = true};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = read_u16(block + 2);
    to.scale[0] = 1;
    to.min[0] = -1;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    read_nibbles(block + 8, 16, q);
    read_fifth_bits(block + 4, q);
  }
};

// A block has d and 32 signed bytes.
struct Q8_0 {
  static constexpr BlockLayout kLayout{.bits = 8, .zero = 128, .group = 32};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = 0;
    to.scale[0] = 1;
    to.min[0] = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    for (int32_t i = 0; i < 32; ++i) q[i] = block[2 + i] ^ 0x80;  // + 128
  }
};

}  // namespace forerun::block_codecs
