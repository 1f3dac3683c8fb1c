#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace forerun {
namespace {

std::vector<float> random_floats(int64_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(RmsNorm, MatchesTheReferenceOverWidths) {
  for (const int64_t dim : {1, 2, 15, 16, 17, 31, 64, 100, 512, 1408, 8192}) {
    for (const float scale : {1e-4f, 1.0f, 300.0f}) {
      constexpr int64_t kRows = 3;
      // Rows are unaligned, with NaNs between them.
      const int64_t stride = dim + 5;
      std::vector<float> x(static_cast<size_t>(kRows * stride + 1),
                           std::numeric_limits<float>::quiet_NaN());
      const MatrixView<float> view(x.data() + 1, {kRows, dim}, stride);
      for (int64_t row = 0; row < kRows; ++row) {
        const auto values = random_floats(dim, static_cast<uint32_t>(dim + row), scale);
        std::copy(values.begin(), values.end(), view.row(row));
      }
      const std::vector<float> weight = random_floats(dim, 7);
      std::vector<float> found(static_cast<size_t>(kRows * dim));
      std::vector<float> expected(found.size());
      rms_norm(Team(0, 1, nullptr), view, weight, 1e-5f,
               MatrixView<float>(found.data(), {kRows, dim}));
      rms_norm_ref(view, weight, 1e-5f, MatrixView<float>(expected.data(), {kRows, dim}));
      for (size_t index = 0; index < found.size(); ++index) {
        // Allows a few f32 roundings, relative to the element.
        EXPECT_NEAR(found[index], expected[index], 2e-6 * std::fabs(expected[index]))
            << "dim " << dim << " element " << index;
      }
    }
  }
}

TEST(RmsNorm, MayWriteOverItsInput) {
  const std::vector<float> x = random_floats(96, 3);
  const std::vector<float> weight = random_floats(96, 4);
  std::vector<float> apart(96);
  std::vector<float> in_place = x;
  rms_norm_row(x.data(), weight, 1e-6f, apart.data());
  rms_norm_row(in_place.data(), weight, 1e-6f, in_place.data());
  EXPECT_EQ(apart, in_place);
  EXPECT_NE(apart, x);
}

TEST(RmsNorm, RowsDoNotDependOnCompanionsOrTeam) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kDim = 200;
  const std::vector<float> x = random_floats(kRows * kDim, 5);
  const std::vector<float> weight = random_floats(kDim, 6);
  const MatrixView<const float> view(x.data(), {kRows, kDim});
  std::vector<float> alone(x.size());
  for (int64_t row = 0; row < kRows; ++row) {
    rms_norm_row(view.row(row), weight, 1e-5f, alone.data() + row * kDim);
  }
  for (const int32_t team_size : {1, 2, 3}) {
    const auto device = std::move(CpuDevice::create({}, team_size)).value();
    std::vector<float> together(x.size());
    device->run([&](const Team& team) {
      rms_norm(team, view, weight, 1e-5f, MatrixView<float>(together.data(), {kRows, kDim}));
    });
    EXPECT_EQ(together, alone) << "team " << team_size;
  }
}

}  // namespace
}  // namespace forerun
