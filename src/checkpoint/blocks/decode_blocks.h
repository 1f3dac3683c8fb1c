// Shared helpers of the codecs, which read little-endian numbers and nibbles and decode a block's
// fields. A codec is a struct with kLayout, read_scales() for all fields but q, and read_quants()
// for q; the codecs are in simple_codecs.h, k_quant_codecs.h and code_book_codecs.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "checkpoint/blocks/block_fields.h"

namespace forerun::block_codecs {

inline uint16_t read_u16(const uint8_t* from) {
  return static_cast<uint16_t>(from[0] | (from[1] << 8));
}

// Writes the low halves of `count` bytes, then their high halves.
inline void read_nibbles(const uint8_t* from, int32_t count, uint8_t* to) {
  for (int32_t i = 0; i < count; ++i) {
    to[i] = from[i] & 0xf;
    to[count + i] = from[i] >> 4;
  }
}

inline float scale_to_float(const BlockLayout& layout, uint16_t d) {
  if (!layout.e8m0) return to_float(f16{d});
  // 2^-128 and 2^-127 are subnormal.
  return std::bit_cast<float>(d < 2 ? 0x00200000u << d : (d - 1u) << 23);
}

template <class Codec>
void unpack(const std::byte* block, BlockFields& to) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(block);
  Codec::read_scales(bytes, to);
  Codec::read_quants(bytes, to.q);
}

template <class Codec, int64_t kWeights, int64_t kBytes>
void decode(const std::byte* blocks, int64_t count, float* to) {
  constexpr const BlockLayout& kLayout = Codec::kLayout;
  BlockFields fields;
  for (int64_t block = 0; block < count; ++block, blocks += kBytes) {
    unpack<Codec>(blocks, fields);
    const float d = scale_to_float(kLayout, fields.d);
    const float dmin = kLayout.has_min ? to_float(f16{fields.dmin}) : 0.0f;
    for (int64_t group = 0; group < kWeights / kLayout.group; ++group, to += kLayout.group) {
      const uint8_t* q = fields.q + group * kLayout.group;
      const float scale = d * static_cast<float>(fields.scale[group]);
      const float min = kLayout.has_min ? dmin * static_cast<float>(fields.min[group]) : 0.0f;
      for (int32_t i = 0; i < kLayout.group; ++i) {
        const int32_t level =
            kLayout.code_book.empty() ? q[i] - kLayout.zero : kLayout.code_book[q[i]];
        const float value = scale * static_cast<float>(level);
        to[i] = kLayout.has_min ? value - min : value;
      }
    }
  }
}

}  // namespace forerun::block_codecs
