#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace forerun {
namespace {

TEST(DType, EveryBf16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const bf16 value{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(value)))));
    } else {
      EXPECT_EQ(to_bf16(to_float(value)).bits, value.bits);
    }
  }
}

TEST(DType, EveryF16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const f16 value{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(value)))));
    } else {
      EXPECT_EQ(to_f16(to_float(value)).bits, value.bits) << bits;
    }
  }
}

TEST(DType, RoundsTiesToEven) {
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
  EXPECT_EQ(to_float(to_f16(1.0f + 0x1p-11f)), 1.0f);
  EXPECT_EQ(to_float(to_f16(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);
  EXPECT_EQ(to_float(to_f16(0x1p-25f)), 0.0f);
  EXPECT_EQ(to_float(to_f16(0x1.8p-25f)), 0x1p-24f);
}

TEST(DType, OverflowAndNan) {
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520.0f))));
  EXPECT_EQ(to_float(to_f16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isnan(to_float(to_f16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(round_to_bf16(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isinf(round_to_bf16(std::numeric_limits<float>::max())));
}

TEST(DType, EveryF8E4M3IsASignAMantissaAndAPowerOfTwo) {
  for (int32_t bits = 0; bits < 256; ++bits) {
    const float value = to_float(f8_e4m3{static_cast<uint8_t>(bits)});
    EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
    const int32_t exponent = bits / 8 % 16, mantissa = bits % 8;
    if (bits % 128 == 127) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else if (exponent == 0) {
      EXPECT_EQ(std::abs(value), std::ldexp(mantissa / 8.0, -6)) << bits;
    } else {
      EXPECT_EQ(std::abs(value), std::ldexp(1.0 + mantissa / 8.0, exponent - 7)) << bits;
    }
  }
  EXPECT_EQ(to_float(f8_e4m3{0x7e}), 448.0f);
}

}  // namespace
}  // namespace forerun
