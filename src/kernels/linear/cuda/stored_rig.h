// Random weights in the formats of checkpoints, with their values by plain formulas, for tests of
// the grouped formats (linear/unit_formats.h).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {

struct StoredTensor {
  std::vector<uint8_t> bytes;  // [out][row_bytes]
  int64_t row_bytes = 0;
  std::vector<float> scales;   // e4m3: [out][in / 64]
  std::vector<float> weights;  // [out][in]
};

// The fields of a GGUF file's block, before they become bytes.
struct BlockParts {
  std::array<int, 256> q = {};
  std::array<int, 16> scale = {}, min = {};
  uint16_t d = 0, dmin = 0;
  int zero = 0;
};

struct BlockShape {
  int inputs, bytes, bits, zero, group;
  int lowest_scale, highest_scale;  // 0, 0 for one level
  bool has_min;
  std::array<float, 16> book = {};  // levels of quants, or none
};
inline constexpr std::array<float, 16> kIq4Book = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::array<float, 16> kE2m1Book = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                    -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
inline BlockShape block_shape(LinearFormat format) {
  switch (format) {
    case LinearFormat::kQ4_0:
      return {32, 18, 4, 8, 32, 0, 0, false};
    case LinearFormat::kQ4_1:
      return {32, 20, 4, 0, 32, 0, 0, true};
    case LinearFormat::kQ4_K:
      return {256, 144, 4, 0, 32, 0, 63, true};
    case LinearFormat::kQ5_K:
      return {256, 176, 5, 0, 32, 0, 63, true};
    case LinearFormat::kQ6_K:
      return {256, 210, 6, 32, 16, -128, 127, false};
    case LinearFormat::kQ5_0:
      return {32, 22, 5, 16, 32, 0, 0, false};
    case LinearFormat::kQ5_1:
      return {32, 24, 5, 0, 32, 0, 0, true};
    case LinearFormat::kIq4Nl:
      return {32, 18, 4, 0, 32, 0, 0, false, kIq4Book};
    case LinearFormat::kIq4Xs:
      return {256, 136, 4, 0, 32, -32, 31, false, kIq4Book};
    case LinearFormat::kMxfp4:
      return {32, 17, 4, 0, 32, 0, 0, false, kE2m1Book};
    case LinearFormat::kInt4Zeros:
      return {32, 19, 4, 0, 32, 0, 0, false};
    case LinearFormat::kQ3_K:
      return {256, 110, 3, 4, 16, -32, 31, false};
    case LinearFormat::kQ2_K:
      return {256, 84, 2, 0, 16, 0, 15, true};
    default:
      return {32, 34, 8, 128, 32, 0, 0, false};  // q8_0
  }
}

// Writes the bytes of a block.
class BlockWriter {
 public:
  explicit BlockWriter(const BlockParts& parts) : parts_(parts) {}

  void put(int byte) { bytes_.push_back(static_cast<uint8_t>(byte)); }
  void put_half(uint16_t half) {
    put(half & 0xff);
    put(half >> 8);
  }
  // Writes the low nibbles of quants [first, first + count), and the high nibbles of the next
  // `count`.
  void put_nibbles(int first, int count) {
    for (int i = first; i < first + count; ++i)
      put((parts_.q[i] & 15) | (parts_.q[i + count] & 15) << 4);
  }
  // Writes bits `shift` and `shift` + 1 of quants, those of four quants, 32 apart, in a byte.
  void put_pairs(int shift) {
    for (int half = 0; half < 256; half += 128) {
      for (int i = half; i < half + 32; ++i) {
        int byte = 0;
        for (int four = 0; four < 4; ++four)
          byte |= (parts_.q[i + 32 * four] >> shift & 3) << 2 * four;
        put(byte);
      }
    }
  }
  // Writes bit `shift` of 256 quants, those of eight quants, 32 apart, in a byte.
  void put_bits(int shift) {
    for (int i = 0; i < 32; ++i) {
      int byte = 0;
      for (int eight = 0; eight < 8; ++eight)
        byte |= (parts_.q[i + 32 * eight] >> shift & 1) << eight;
      put(byte);
    }
  }
  void put_fifth_bits() {
    for (int first = 0; first < 32; first += 8) {
      int byte = 0;
      for (int i = 0; i < 8; ++i) byte |= parts_.q[first + i] >> 4 << i;
      put(byte);
    }
  }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  const BlockParts& parts_;
  std::vector<uint8_t> bytes_;
};

// Returns the bytes of a block.
inline std::vector<uint8_t> encoded(LinearFormat format, const BlockParts& parts) {
  BlockWriter out(parts);
  switch (format) {
    case LinearFormat::kQ8_0:
      out.put_half(parts.d);
      for (int i = 0; i < 32; ++i) out.put(parts.q[i] - 128);
      break;
    case LinearFormat::kQ4_0:
    case LinearFormat::kIq4Nl:
      out.put_half(parts.d);
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kInt4Zeros:
      out.put_half(parts.d);
      out.put(parts.zero);
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kQ4_1:
      out.put_half(parts.d);
      out.put_half(parts.dmin);
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kQ5_0:
      out.put_half(parts.d);
      out.put_fifth_bits();
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kQ5_1:
      out.put_half(parts.d);
      out.put_half(parts.dmin);
      out.put_fifth_bits();
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kMxfp4:
      out.put(parts.d);
      out.put_nibbles(0, 16);
      break;
    case LinearFormat::kIq4Xs: {
      out.put_half(parts.d);
      int high = 0;
      for (int group = 0; group < 8; ++group) high |= (parts.scale[group] + 32) >> 4 << 2 * group;
      out.put_half(static_cast<uint16_t>(high));
      for (int group = 0; group < 8; group += 2) {
        out.put(((parts.scale[group] + 32) & 15) | ((parts.scale[group + 1] + 32) & 15) << 4);
      }
      for (int first = 0; first < 256; first += 32) out.put_nibbles(first, 16);
      break;
    }
    case LinearFormat::kQ3_K:
      out.put_bits(2);
      out.put_pairs(0);
      for (int i = 0; i < 8; ++i) {
        out.put(((parts.scale[i] + 32) & 15) | ((parts.scale[i + 8] + 32) & 15) << 4);
      }
      for (int i = 0; i < 4; ++i) {
        int byte = 0;
        for (int four = 0; four < 4; ++four)
          byte |= (parts.scale[i + 4 * four] + 32) >> 4 << 2 * four;
        out.put(byte);
      }
      out.put_half(parts.d);
      break;
    case LinearFormat::kQ2_K:
      for (int i = 0; i < 16; ++i) out.put(parts.scale[i] | parts.min[i] << 4);
      out.put_pairs(0);
      out.put_half(parts.d);
      out.put_half(parts.dmin);
      break;
    case LinearFormat::kQ6_K:
      out.put_nibbles(0, 64);
      out.put_nibbles(128, 64);
      out.put_pairs(4);
      for (const int scale : parts.scale) out.put(scale);
      out.put_half(parts.d);
      break;
    default:  // q4_K, q5_K
      out.put_half(parts.d);
      out.put_half(parts.dmin);
      for (int i = 0; i < 4; ++i) out.put(parts.scale[i] | parts.scale[i + 4] >> 4 << 6);
      for (int i = 0; i < 4; ++i) out.put(parts.min[i] | parts.min[i + 4] >> 4 << 6);
      for (int i = 4; i < 8; ++i) out.put((parts.scale[i] & 15) | (parts.min[i] & 15) << 4);
      if (format == LinearFormat::kQ5_K) out.put_bits(4);
      for (int first = 0; first < 256; first += 64) out.put_nibbles(first, 32);
  }
  return out.take();
}

inline StoredTensor random_blocks(LinearFormat format, int64_t in, int64_t out, uint32_t seed) {
  const BlockShape shape = block_shape(format);
  std::mt19937 engine(seed);
  const auto below = [&engine](int count) {
    return static_cast<int>(engine() % static_cast<uint32_t>(count));
  };
  std::uniform_real_distribution<float> uniform(0.2f, 1.0f);
  const bool two_levels = shape.highest_scale > 0;
  const float largest = shape.book[1] == 0
                            ? static_cast<float>(1 << (shape.bits - 1))
                            : *std::max_element(shape.book.begin(), shape.book.end());
  const bool is_mxfp4 = format == LinearFormat::kMxfp4;
  const float unit =
      0.05f / largest / (two_levels ? static_cast<float>(shape.highest_scale) : 1.0f);
  StoredTensor tensor;
  const int64_t blocks = (in + shape.inputs - 1) / shape.inputs;
  tensor.row_bytes = blocks * shape.bytes;
  for (int64_t block_idx = 0; block_idx < out * blocks; ++block_idx) {
    BlockParts parts;
    for (int& q : parts.q) q = below(1 << shape.bits);
    parts.d = to_f16(uniform(engine) * unit).bits;
    if (is_mxfp4) parts.d = static_cast<uint16_t>(118 + below(4));
    parts.zero = format == LinearFormat::kInt4Zeros ? below(17) : shape.zero;
    // Minima of about the middle of the quants.
    if (shape.has_min) {
      const float middle = static_cast<float>(1 << (shape.bits - 1)) * uniform(engine) * unit;
      parts.dmin = to_f16(two_levels ? middle : -middle).bits;
    }
    for (int i = 0; i < 16; ++i) {
      parts.scale[i] = shape.lowest_scale + below(shape.highest_scale - shape.lowest_scale + 1);
      parts.min[i] = shape.has_min ? below(shape.highest_scale + 1) : 0;
    }
    const std::vector<uint8_t> bytes = encoded(format, parts);
    tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
    const int64_t left = in - block_idx % blocks * shape.inputs;
    for (int64_t i = 0; i < std::min<int64_t>(shape.inputs, left); ++i) {
      const auto group = static_cast<size_t>(i / shape.group);
      const float d = is_mxfp4 ? std::ldexp(1.0f, parts.d - 127) : to_float(f16{parts.d});
      const float dmin = to_float(f16{parts.dmin});
      const int quant = parts.q[static_cast<size_t>(i)];
      const float q = shape.book[1] == 0 ? static_cast<float>(quant - parts.zero)
                                         : shape.book[static_cast<size_t>(quant)];
      tensor.weights.push_back(two_levels ? d * static_cast<float>(parts.scale[group]) * q -
                                                dmin * static_cast<float>(parts.min[group])
                                          : d * q + dmin);
    }
  }
  return tensor;
}

inline StoredTensor random_fp8(int64_t in, int64_t out, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(1e-4f, 1e-3f);
  StoredTensor tensor;
  tensor.row_bytes = in;
  const int64_t groups = in / 64;
  for (int64_t output = 0; output < out; ++output) {
    for (int64_t group = 0; group < groups; ++group) tensor.scales.push_back(uniform(engine));
    for (int64_t i = 0; i < in; ++i) {
      auto code = static_cast<uint8_t>(engine());
      if ((code & 0x7f) == 0x7f) code = 1;  // subnormal instead of NaN
      tensor.bytes.push_back(code);
      const int exponent = code >> 3 & 15, mantissa = code & 7;
      const float magnitude = exponent == 0
                                  ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
      tensor.weights.push_back((code >= 128 ? -magnitude : magnitude) *
                               tensor.scales[static_cast<size_t>(output * groups + i / 64)]);
    }
  }
  return tensor;
}

inline StoredTensor random_stored(LinearFormat format, int64_t in, int64_t out, uint32_t seed) {
  return format == LinearFormat::kFp8 ? random_fp8(in, out, seed)
                                      : random_blocks(format, in, out, seed);
}

}  // namespace forerun::cuda
