// Tests the packing of weights: bit orders, scales, rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_rig.h"

namespace forerun {
namespace {

TEST(LinearWeight, AwqBitOrderOnHandMadeWords) {
  // AutoAWQ stores column 0 in nibble 0, then 2, 4, 6, 1, 3, 5, 7.
  constexpr int64_t kIn = 32;
  std::vector<int32_t> qweight(kIn, 0x00000000);
  qweight[0] = 0x75316420;                           // column c holds c
  qweight[5] = static_cast<int32_t>(0xfdb9eca8u);    // column c holds 8 + c
  const std::vector<int32_t> qzeros = {0x00000003};  // column 0 has zero point 3
  std::vector<float> scales = {1, 1, 1, 1, 1, 1, 1, 0.5f};
  const LinearWeight weight =
      LinearWeight::from_awq(MatrixView<const int32_t>(qweight.data(), {kIn, 1}),
                             MatrixView<const int32_t>(qzeros.data(), {1, 1}),
                             MatrixView<const float>(scales.data(), {1, 8}), kIn);
  std::vector<float> w(8 * kIn);
  weight.dequantize(0, MatrixView<float>(w.data(), {8, kIn}));
  for (size_t column = 0; column < 8; ++column) {
    const float zero = column == 0 ? 3.0f : 0.0f;
    const float c = static_cast<float>(column);
    EXPECT_EQ(w[column * kIn + 0], (c - zero) * scales[column]);
    EXPECT_EQ(w[column * kIn + 5], (8.0f + c - zero) * scales[column]);
    EXPECT_EQ(w[column * kIn + 6], (0.0f - zero) * scales[column]);
  }
}

TEST(LinearWeight, Int8IsWithinHalfAStepOfItsSource) {
  std::mt19937 engine(8);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  constexpr int64_t kOut = 19;
  constexpr int64_t kIn = 77;
  std::vector<float> w(kOut * kIn);
  for (float& value : w) value = normal(engine);
  for (int64_t in = 0; in < kIn; ++in) w[static_cast<size_t>(3 * kIn + in)] = 0.0f;
  const LinearWeight weight =
      LinearWeight::quantize_int8(MatrixView<const float>(w.data(), {kOut, kIn}));
  std::vector<float> back(kOut * kIn);
  weight.dequantize(0, MatrixView<float>(back.data(), {kOut, kIn}));
  for (int64_t out = 0; out < kOut; ++out) {
    float largest = 0.0f;
    for (int64_t in = 0; in < kIn; ++in) {
      largest = std::max(largest, std::fabs(w[static_cast<size_t>(out * kIn + in)]));
    }
    for (int64_t in = 0; in < kIn; ++in) {
      const size_t at = static_cast<size_t>(out * kIn + in);
      EXPECT_NEAR(back[at], w[at], largest / 127.0f * 0.5001f);
    }
  }
}

TEST(LinearWeight, Int8OfANanIsANanChannel) {
  std::vector<float> w(2 * 40, 1.0f);
  w[5] = std::numeric_limits<float>::quiet_NaN();
  const LinearWeight weight =
      LinearWeight::quantize_int8(MatrixView<const float>(w.data(), {2, 40}));
  std::vector<float> back(2 * 40);
  weight.dequantize(0, MatrixView<float>(back.data(), {2, 40}));
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_NEAR(back[40], 1.0f, 1e-6f);
}

TEST(LinearWeight, ManySmallWeightsShareMemoryAndStayIntact) {
  std::vector<LinearWeight> weights;
  std::vector<float> w(64 * 64);
  for (int idx = 0; idx < 400; ++idx) {  // more than one chunk of the arena
    for (float& value : w) value = static_cast<float>(idx + 1);
    weights.push_back(LinearWeight::quantize_int8(MatrixView<const float>(w.data(), {64, 64})));
    if (idx % 3 == 0) weights.erase(weights.begin());
  }
  std::vector<float> back(64 * 64);
  float previous = 0.0f;
  for (const LinearWeight& weight : weights) {
    weight.dequantize(0, MatrixView<float>(back.data(), {64, 64}));
    EXPECT_EQ(back.front(), back.back());
    EXPECT_GT(back.front(), previous);
    previous = back.front();
  }
}

TEST(LinearWeight, TakesTheBytesThatPlansCount) {
  for (const WeightFormatInfo& info : weight_format_table()) {
    for (const int64_t group : {32, 128}) {
      Random random(1);
      const int64_t in = whole_blocks(info.format, 384);
      const TestWeight made = make_weight(info.format, 40, in, group, random);
      const auto scales = static_cast<int64_t>(made.weight.storage().scales.size() * sizeof(float));
      EXPECT_EQ(static_cast<int64_t>(made.weight.bytes()) - scales,
                weight_bytes(info.format, 40, in, group))
          << info.name;
    }
  }
}

}  // namespace
}  // namespace forerun
