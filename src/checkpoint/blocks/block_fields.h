// The parts of one block, for packers of kernels: quantized values as unsigned bytes, integer
// scales and mins, the block's own scales. decode() in block_format.h is computed from these parts,
// so both see the same weights.
//
// Weight i of a block is in group g = i / layout.group. Its value, in f32 and in this order, is
//   (d * scale[g]) * level - (dmin * min[g])
// where level is q[i] - zero or, in formats with a code book, code_book[q[i]]. Nothing is
// subtracted where has_min is false.
//
// Thread rules: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/blocks/block_format.h"

namespace forerun {

// What all blocks of a format have in common.
struct BlockLayout {
  int32_t bits;  // bits of a quantized value
  // The quantized value that stands for 0; 0 where the format has mins or a code book.
  int32_t zero;
  int32_t group;  // consecutive weights that share a scale and a min: 16 or 32
  bool has_min = false;
  bool e8m0 = false;                       // d is an exponent (MXFP4), not an f16
  std::span<const int8_t> code_book = {};  // 1 << bits values, or none
  // The range of the integer scales of groups, and of their mins from 0 on. Both are 1 where a
  // block has one scale.
  int32_t scale_low = 1, scale_high = 1;
};

struct BlockFields {
  uint8_t q[256];    // [weights], in the order of the weights, below 1 << bits
  int8_t scale[16];  // [weights / group]; 1 where a block has one scale
  int8_t min[16];    // [weights / group]; -1 where a block has one minimum, which Q4_1 and Q5_1 add
  uint16_t d;        // the bits as stored: an f16, or the 8 bits of an exponent
  uint16_t dmin;     // the bits of an f16: dmin, or Q4_1's and Q5_1's m; 0 without min
};

// Parts of `to` beyond the format's weights and groups are left as they were.
inline void unpack_block(BlockFormat format, const std::byte* block, BlockFields& to) {
  block_format(format).unpack(block, to);
}

// d of a block as a float. An exponent e stands for 2^(e - 128): half of what MXFP4 defines, since
// the code book holds doubled values. All 256 exponents are finite, 255 included, which other
// readers of MXFP4 take for NaN.
float block_scale(const BlockLayout& layout, uint16_t d);

}  // namespace forerun
