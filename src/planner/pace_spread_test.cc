#include "planner/pace_spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace forerun {
namespace {

TEST(PaceSpread, EvenRoundsLeaveNoDoubt) {
  PaceSpread spread;
  for (int round = 0; round < 8; ++round) {
    spread.add(0.0, 1.0);  // a Step of the draft
    spread.add(3.0, 1.5);
  }
  EXPECT_NEAR(spread.deviation(), 0.0, 1e-6);
}

TEST(PaceSpread, FewRoundsSayLittle) {
  PaceSpread spread;
  EXPECT_GE(spread.deviation(), 0.3);
  spread.add(4.0, 4.0);
  spread.add(4.0, 4.0);
  EXPECT_GE(spread.deviation(), 0.3);
}

TEST(PaceSpread, OneSlowStepLeavesDoubt) {
  PaceSpread spread;
  for (int step = 0; step < 15; ++step) spread.add(1.0, 1.0);
  EXPECT_LT(spread.deviation(), 0.01);
  spread.add(1.0, 15.0);  // kernels were loaded: the ratio is off by log 2
  EXPECT_GT(spread.deviation(), 0.4);
}

TEST(PaceSpread, IsWhatSuchMeasurementsDifferBy) {
  std::mt19937 draw(1);
  std::geometric_distribution<int> more(0.5);  // tokens of a round beyond the first
  double squares = 0.0, said = 0.0;
  constexpr int kMeasurements = 2000;
  for (int measurement = 0; measurement < kMeasurements; ++measurement) {
    PaceSpread spread;
    double tokens = 0.0;
    for (int round = 0; round < 16; ++round) {
      const double brought = 1.0 + more(draw);
      tokens += brought;
      spread.add(brought, 2.0);
    }
    squares += std::pow(std::log(tokens / 32.0), 2.0);
    said += std::pow(spread.deviation(), 2.0);
  }
  EXPECT_NEAR(std::sqrt(said / squares), 1.0, 0.15);
}

}  // namespace
}  // namespace forerun
