#include "checkpoint/blocks/round_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/noise.h"

namespace forerun {
namespace {

// Returns values that are distributed like weights: sums of uniform numbers around 0.
std::vector<float> weights(int64_t count, int32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t at = 0; at < count; ++at) {
    float sum = -2.0f;
    for (uint32_t part = 0; part < 4; ++part) {
      sum += static_cast<float>(noise_uniform(
          noise_bits(7, NoiseStream::kTarget, seed, static_cast<uint32_t>(4 * at) + part)));
    }
    values[static_cast<size_t>(at)] = 0.05f * sum;
  }
  return values;
}

// Computes the values by the formula of block_fields.h.
std::vector<float> values_of(const BlockFormatInfo& format, const BlockFields& block) {
  const BlockLayout& layout = *format.layout;
  std::vector<float> values;
  for (int64_t at = 0; at < format.weights; ++at) {
    const auto group = static_cast<size_t>(at / layout.group);
    const int32_t level =
        layout.code_book.empty() ? block.q[at] - layout.zero : layout.code_book[block.q[at]];
    float value = block_scale(layout, block.d) * static_cast<float>(block.scale[group]) *
                  static_cast<float>(level);
    if (layout.has_min) {
      value -= to_float(f16{block.dmin}) * static_cast<float>(block.min[group]);
    }
    values.push_back(value);
  }
  return values;
}

std::vector<float> rounded(const BlockFormatInfo& format, const std::vector<float>& values) {
  BlockFields block = {};
  round_block(format, values.data(), block);
  return values_of(format, block);
}

double squared(const std::vector<float>& left, const std::vector<float>& right) {
  double sum = 0;
  for (size_t at = 0; at < left.size(); ++at) {
    sum += std::pow(double{left[at]} - double{right[at]}, 2);
  }
  return sum;
}

TEST(RoundBlock, PartsAreInTheirRange) {
  for (const BlockFormatInfo& format : block_formats()) {
    SCOPED_TRACE(std::string(format.name));
    const BlockLayout& layout = *format.layout;
    for (const float factor : {1e-30f, 1e-7f, 1.0f, 5e5f, -1.0f}) {
      std::vector<float> values = weights(format.weights, 1);
      for (float& value : values) value = std::clamp(value * factor, -65504.0f, 65504.0f);
      BlockFields block = {};
      round_block(format, values.data(), block);
      for (int64_t at = 0; at < format.weights; ++at) ASSERT_LT(block.q[at], 1 << layout.bits);
      for (int64_t group = 0; group < format.weights / layout.group; ++group) {
        if (layout.scale_high == 1 && group > 0) break;
        EXPECT_GE(block.scale[group], layout.scale_low);
        EXPECT_LE(block.scale[group], layout.scale_high);
        if (layout.scale_high == 1) continue;
        EXPECT_GE(block.min[group], 0);
        EXPECT_LE(block.min[group], layout.scale_high);
      }
      for (const float value : values_of(format, block)) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// The error is the root mean square of the differences, divided by that of the values.
TEST(RoundBlock, ErrorsAreThoseOfTheBits) {
  for (const BlockFormatInfo& format : block_formats()) {
    double error = 0, norm = 0;
    for (int32_t seed = 0; seed < 64; ++seed) {
      const std::vector<float> values = weights(format.weights, seed);
      error += squared(values, rounded(format, values));
      norm += squared(values, std::vector<float>(values.size()));
    }
    const double relative = std::sqrt(error / norm);
    const double most = format.layout->bits == 2   ? 0.28
                        : format.layout->bits == 3 ? 0.16
                        : format.layout->e8m0      ? 0.12
                        : format.layout->bits == 4 ? 0.085
                        : format.layout->bits == 5 ? 0.042
                        : format.layout->bits == 6 ? 0.02
                                                   : 0.006;
    EXPECT_LT(relative, most) << format.name;
    EXPECT_GT(relative, most / 4) << format.name;
  }
}

TEST(RoundBlock, ZerosStayZeros) {
  for (const BlockFormatInfo& format : block_formats()) {
    const std::vector<float> zeros(static_cast<size_t>(format.weights));
    EXPECT_EQ(rounded(format, zeros), zeros) << format.name;
  }
}

// A group of equal values needs only one level.
TEST(RoundBlock, EqualValuesKeepTheirSize) {
  for (const BlockFormatInfo& format : block_formats()) {
    for (const float value : {0.75f, -0.75f}) {
      const std::vector<float> values(static_cast<size_t>(format.weights), value);
      for (const float found : rounded(format, values)) {
        ASSERT_NEAR(found, value, 0.005f) << format.name;
      }
    }
  }
}

}  // namespace
}  // namespace forerun
