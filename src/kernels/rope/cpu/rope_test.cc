#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace forerun {
namespace {

RopeFrequencies plain_frequencies(int64_t head_dim, double theta = 10000.0) {
  RopeFrequencies rope;
  for (int64_t dim = 0; dim < head_dim; dim += 2) {
    rope.frequencies.push_back(
        std::pow(theta, -static_cast<double>(dim) / static_cast<double>(head_dim)));
  }
  return rope;
}

std::vector<float> random_floats(int64_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Rope, MatchesTheReferenceAtAllPositions) {
  for (const int64_t head_dim : {2, 6, 16, 64, 128}) {
    const std::vector<int32_t> positions = {0, 1, 2, 63, 64, 1000, 32767, 131071};
    RopeFrequencies frequencies = plain_frequencies(head_dim);
    frequencies.magnitude = 1.25;
    auto table = RopeTable::create(frequencies, 131072);
    ASSERT_TRUE(table.ok());
    for (const int32_t position : positions) table->prepare(position);
    const auto rows = static_cast<int64_t>(positions.size());
    std::vector<float> found = random_floats(rows * 3 * head_dim);
    std::vector<float> expected = found;
    rope(Team(0, 1, nullptr), *table, positions, head_dim,
         MatrixView<float>(found.data(), {rows, 3 * head_dim}));
    rope_ref(frequencies, positions, MatrixView<float>(expected.data(), {rows, 3 * head_dim}));
    for (size_t index = 0; index < found.size(); ++index) {
      // Allows the error of two products of numbers up to 5 and cosines rounded to f32.
      EXPECT_NEAR(found[index], expected[index], 2e-6) << "dim " << head_dim;
    }
  }
}

// Pairs are (i, i + head_dim / 2): a quarter turn moves the first half into the second.
TEST(Rope, PairsHalvesOfTheHead) {
  RopeFrequencies quarter;
  quarter.frequencies = {std::acos(-1.0) / 2.0, 0.0};
  auto table = RopeTable::create(quarter, 2);
  ASSERT_TRUE(table.ok());
  table->prepare(1);
  std::vector<float> head = {3.0f, 5.0f, 7.0f, 9.0f};
  rope_head(head.data(), table->cosines(1), table->sines(1), 2);
  EXPECT_NEAR(head[0], -7.0f, 1e-6);
  EXPECT_NEAR(head[1], 5.0f, 1e-6);
  EXPECT_NEAR(head[2], 3.0f, 1e-6);
  EXPECT_NEAR(head[3], 9.0f, 1e-6);
}

TEST(Rope, PreparingAgainChangesNothing) {
  auto table = RopeTable::create(plain_frequencies(64), 4096);
  ASSERT_TRUE(table.ok());
  table->prepare(777);
  const std::vector<float> before(table->cosines(777), table->cosines(777) + 64);
  table->prepare(778);
  table->prepare(777);
  EXPECT_EQ(before, std::vector<float>(table->cosines(777), table->cosines(777) + 64));
  EXPECT_NEAR(before[0], std::cos(777.0), 1e-7);
}

TEST(Rope, RowsDoNotDependOnTheTeam) {
  constexpr int64_t kRows = 19;
  std::vector<int32_t> positions;
  auto table = RopeTable::create(plain_frequencies(32), 4096);
  ASSERT_TRUE(table.ok());
  for (int32_t row = 0; row < kRows; ++row) {
    positions.push_back(row * 50);
    table->prepare(row * 50);
  }
  const std::vector<float> x = random_floats(kRows * 64);
  std::vector<float> alone = x;
  rope(Team(0, 1, nullptr), *table, positions, 32, MatrixView<float>(alone.data(), {kRows, 64}));
  const auto device = std::move(CpuDevice::create({}, 3)).value();
  std::vector<float> together = x;
  device->run([&](const Team& team) {
    rope(team, *table, positions, 32, MatrixView<float>(together.data(), {kRows, 64}));
  });
  EXPECT_EQ(alone, together);
  EXPECT_NE(alone, x);
}

}  // namespace
}  // namespace forerun
