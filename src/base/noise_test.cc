#include "base/noise.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Known answers of Philox4x32-10 from its authors' published test vectors.
TEST(Noise, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(
      philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Noise, DependsOnEveryCoordinate) {
  const uint32_t base = noise_bits(1, NoiseStream::kTarget, 2, 3);
  EXPECT_EQ(base, noise_bits(1, NoiseStream::kTarget, 2, 3));
  EXPECT_NE(base, noise_bits(2, NoiseStream::kTarget, 2, 3));
  EXPECT_NE(base, noise_bits(uint64_t{1} << 32 | 1, NoiseStream::kTarget, 2, 3));
  EXPECT_NE(base, noise_bits(1, NoiseStream::kDraft, 2, 3));
  EXPECT_NE(base, noise_bits(1, NoiseStream::kTarget, 3, 3));
  EXPECT_NE(base, noise_bits(1, NoiseStream::kTarget, 2, 4));
}

TEST(Noise, GumbelStaysWithinItsBoundsAndHasItsMoments) {
  EXPECT_GE(gumbel_noise(0), kMinGumbel);
  EXPECT_LE(gumbel_noise(0xffffffffu), kMaxGumbel);
  double sum = 0, squares = 0;
  constexpr int kCount = 200000;
  for (uint32_t index = 0; index < kCount; ++index) {
    const double g = gumbel_noise(noise_bits(7, NoiseStream::kTarget, 11, index));
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5772, 0.01);                            // Euler's constant
  EXPECT_NEAR(squares / kCount - mean * mean, 1.6449, 0.03);  // pi^2 / 6
}

}  // namespace
}  // namespace forerun
