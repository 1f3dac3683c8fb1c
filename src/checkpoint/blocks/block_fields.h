// The fields of one block, for packers of kernels: quantized values as unsigned bytes, integer
// scales and mins, the block's own scales. decode() in block_format.h uses these fields, so both
// see the same weights.
//
// Weight i of a block is in group g = i / layout.group. Its value, in f32 and in this order, is
//   (d * scale[g]) * level - (dmin * min[g])
// where level is q[i] - zero or, in formats with a code book, code_book[q[i]]. If has_min is false,
// nothing is subtracted.
//
// All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/blocks/block_format.h"

namespace forerun {

// The layout of all blocks of a format.
struct BlockLayout {
  int32_t bits;  // bits per quantized value
  // The quantized value of 0; 0 for formats with mins or a code book.
  int32_t zero;
  int32_t group;  // consecutive weights that share a scale and a min: 16 or 32
  bool has_min = false;
  bool e8m0 = false;                       // d is an exponent (MXFP4), not an f16
  std::span<const int8_t> code_book = {};  // 1 << bits values, or none
  // The range of the integer scales of groups; their mins range from 0 to the same limit. Both are
  // 1 if a block has one scale.
  int32_t scale_low = 1, scale_high = 1;
};

struct BlockFields {
  uint8_t q[256];    // [weights], in the order of the weights, below 1 << bits
  int8_t scale[16];  // [weights / group]; 1 if a block has one scale
  int8_t min[16];    // [weights / group]; -1 if a block has one minimum, which Q4_1 and Q5_1 add
  uint16_t d;        // bits as stored: an f16, or an exponent of 8 bits
  uint16_t dmin;     // bits of an f16: dmin, or m of Q4_1 and Q5_1; 0 without min
};

// Unpacks a block. Parts of `to` beyond the format's weights and groups keep their values.
inline void unpack_block(BlockFormat format, const std::byte* block, BlockFields& to) {
  block_format(format).unpack(block, to);
}

// Returns d of a block as a float. An exponent e stands for 2^(e - 128), half of MXFP4's value,
// since the code book holds doubled values. All 256 exponents are finite, including 255, which
// other readers of MXFP4 take for NaN.
float block_scale(const BlockLayout& layout, uint16_t d);

}  // namespace forerun
