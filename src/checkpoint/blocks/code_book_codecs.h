// Codecs of formats with a code book: their 4-bit values are indices of 16 signed integers.
#pragma once

#include "checkpoint/blocks/decode_blocks.h"

namespace forerun::block_codecs {

// The code book of IQ4_NL and IQ4_XS; it is denser near 0, as weights are.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
// The values of E2M1, doubled. Index 8 is -0 in E2M1 and 0 here.
inline constexpr int8_t kE2m1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// A block has d and 16 bytes in the order of Q4_0.
struct Iq4Nl {
  static constexpr BlockLayout kLayout{.bits = 4, .zero = 0, .group = 32, .code_book = kIq4Values};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = 0;
    to.scale[0] = 1;
    to.min[0] = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) { read_nibbles(block + 2, 16, q); }
};

// A block of 256 weights has d, eight 6-bit scales with 32 added, and 128 bytes; 16 bytes hold a
// group in the order of Q4_0. The high bits of the scales are pairs in 2 bytes, the lowest first;
// their low bits are the halves of 4 bytes, the low half first.
struct Iq4Xs {
  static constexpr BlockLayout kLayout{.bits = 4,
                                       .zero = 0,
                                       .group = 32,
                                       .code_book = kIq4Values,
                                       .scale_low = -32,
                                       .scale_high = 31};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = read_u16(block);
    to.dmin = 0;
    const int32_t high_bits = read_u16(block + 2);
    for (int32_t group = 0; group < 8; ++group) {
      const int32_t low = (block[4 + group / 2] >> (4 * (group % 2))) & 0xf;
      const int32_t high = (high_bits >> (2 * group)) & 3;
      to.scale[group] = static_cast<int8_t>((low | (high << 4)) - 32);
      to.min[group] = 0;
    }
  }
  static void read_quants(const uint8_t* block, uint8_t* q) {
    for (int32_t group = 0; group < 8; ++group) {
      read_nibbles(block + 8 + 16 * group, 16, q + 32 * group);
    }
  }
};

// A block has an exponent and 16 bytes in the order of Q4_0.
struct Mxfp4 {
  static constexpr BlockLayout kLayout{
      .bits = 4, .zero = 0, .group = 32, .e8m0 = true, .code_book = kE2m1Values};
  static void read_scales(const uint8_t* block, BlockFields& to) {
    to.d = block[0];
    to.dmin = 0;
    to.scale[0] = 1;
    to.min[0] = 0;
  }
  static void read_quants(const uint8_t* block, uint8_t* q) { read_nibbles(block + 1, 16, q); }
};

}  // namespace forerun::block_codecs
