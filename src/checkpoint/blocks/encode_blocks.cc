#include "checkpoint/blocks/encode_blocks.h"

#include <algorithm>
#include <cmath>

#include "base/dtype.h"

namespace forerun {
namespace {

constexpr int64_t kEncodedWeights = 32;

void write_f16(float value, std::byte* to) {
  const uint16_t bits = to_f16(value).bits;
  to[0] = static_cast<std::byte>(bits & 0xff);
  to[1] = static_cast<std::byte>(bits >> 8);
}

float inverse_or_zero(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

// Rounds towards zero. Returns 0 for NaN and for values beyond a byte, which result from the
// inverse of a tiny scale.
int32_t truncated(float value) {
  return std::abs(value) < 256.0f ? static_cast<int32_t>(value) : 0;
}

// Rounds to nearest, halves away from zero. Returns 0 for the same values.
int32_t rounded(float value) {
  if (!(std::abs(value) < 256.0f)) return 0;
  const int32_t whole = static_cast<int32_t>(value);
  const float rest = value - static_cast<float>(whole);  // exact
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

uint8_t nibble(float value) { return static_cast<uint8_t>(std::clamp(truncated(value), 0, 15)); }

std::byte nibbles(uint8_t low, uint8_t high) { return static_cast<std::byte>(low | (high << 4)); }

void encode_q8_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t block = 0; block < count; ++block, from += kEncodedWeights, to += 34) {
    float largest = 0.0f;
    for (int64_t i = 0; i < kEncodedWeights; ++i) largest = std::max(largest, std::abs(from[i]));
    const float d = largest / 127.0f;
    const float inverse = inverse_or_zero(d);
    write_f16(d, to);
    for (int64_t i = 0; i < kEncodedWeights; ++i) {
      to[2 + i] = static_cast<std::byte>(rounded(from[i] * inverse) & 0xff);
    }
  }
}

// Maps the value of largest magnitude, the first one among equals, to -8.
void encode_q4_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t block = 0; block < count; ++block, from += kEncodedWeights, to += 18) {
    float extreme = from[0];
    for (int64_t i = 1; i < kEncodedWeights; ++i) {
      if (std::abs(from[i]) > std::abs(extreme)) extreme = from[i];
    }
    const float d = extreme / -8.0f;
    const float inverse = inverse_or_zero(d);
    write_f16(d, to);
    for (int64_t i = 0; i < 16; ++i) {
      to[2 + i] = nibbles(nibble(from[i] * inverse + 8.5f), nibble(from[i + 16] * inverse + 8.5f));
    }
  }
}

void encode_q4_1(const float* from, int64_t count, std::byte* to) {
  for (int64_t block = 0; block < count; ++block, from += kEncodedWeights, to += 20) {
    float smallest = from[0], largest = from[0];
    for (int64_t i = 1; i < kEncodedWeights; ++i) {
      smallest = std::min(smallest, from[i]);
      largest = std::max(largest, from[i]);
    }
    const float d = (largest - smallest) / 15.0f;
    const float inverse = inverse_or_zero(d);
    write_f16(d, to);
    write_f16(smallest, to + 2);
    for (int64_t i = 0; i < 16; ++i) {
      to[4 + i] = nibbles(nibble((from[i] - smallest) * inverse + 0.5f),
                          nibble((from[i + 16] - smallest) * inverse + 0.5f));
    }
  }
}

}  // namespace

EncodeBlocks block_encoder(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ8_0:
      return encode_q8_0;
    case BlockFormat::kQ4_0:
      return encode_q4_0;
    case BlockFormat::kQ4_1:
      return encode_q4_1;
    default:
      return nullptr;
  }
}

}  // namespace forerun
