#include "planner/arm_rates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forerun {
namespace {

constexpr BatchLoad kLoad = {.sequences = 8, .context_tokens = 4000};

ArmRates two_arms() { return ArmRates({{0.1, 0.3}, {0.0, 0.15}}); }

TEST(ArmRates, ThePredictionIsThePrior) {
  const ArmRates rates = two_arms();
  EXPECT_DOUBLE_EQ(rates.belief(0, kLoad).mean, 0.1);
  EXPECT_NEAR(rates.belief(0, kLoad).deviation, 0.3, 1e-12);
  EXPECT_DOUBLE_EQ(rates.belief(1, kLoad).mean, 0.0);
}

TEST(ArmRates, MeasurementsMoveIt) {
  ArmRates rates = two_arms();
  double deviation = rates.belief(1, kLoad).deviation;
  for (int each = 0; each < 20; ++each) {
    rates.add(1, kLoad, 1.25);
    EXPECT_LT(rates.belief(1, kLoad).deviation, deviation);
    deviation = rates.belief(1, kLoad).deviation;
  }
  EXPECT_NEAR(rates.belief(1, kLoad).mean, std::log(1.25), 0.01);
  EXPECT_DOUBLE_EQ(rates.belief(0, kLoad).mean, 0.1);  // the other arm's belief is unchanged
}

TEST(ArmRates, WhatVariesWithinMeasurementsMakesThemCountLess) {
  ArmRates sure({{0.0, 0.09}}), vague({{0.0, 0.09}});
  sure.add(0, kLoad, 0.6);
  vague.add(0, kLoad, 0.6, 0.4);
  EXPECT_LT(sure.belief(0, kLoad).mean, -0.3);
  EXPECT_GT(vague.belief(0, kLoad).mean, -0.05);
  for (int each = 0; each < 200; ++each) vague.add(0, kLoad, 0.6, 0.1);
  EXPECT_NEAR(vague.belief(0, kLoad).mean, std::log(0.6), 0.05);
}

TEST(ArmRates, InformLoadsNearby) {
  ArmRates rates = two_arms();
  for (int each = 0; each < 20; ++each) rates.add(1, kLoad, 1.25);
  const ArmRates::Belief near = rates.belief(1, {.sequences = 11, .context_tokens = 4000});
  const ArmRates::Belief far = rates.belief(1, {.sequences = 256, .context_tokens = 250});
  EXPECT_NEAR(near.mean, std::log(1.25), 0.03);
  EXPECT_LT(far.mean, 0.5 * near.mean);
  EXPECT_GT(far.deviation, 2.0 * near.deviation);
}

TEST(ArmRates, OldOnesCountLess) {
  ArmRates rates = two_arms();
  for (int each = 0; each < 20; ++each) rates.add(1, kLoad, 1.25);
  const double known = rates.belief(1, kLoad).deviation;
  rates.pass(1800.0);
  EXPECT_GT(rates.belief(1, kLoad).deviation, 1.5 * known);
  for (int each = 0; each < 5; ++each) rates.add(1, kLoad, 0.8);
  EXPECT_LT(rates.belief(1, kLoad).mean, 0.0);
  rates.pass(1e6);
  EXPECT_NEAR(rates.belief(1, kLoad).mean, 0.0, 1e-3);
  EXPECT_NEAR(rates.belief(1, kLoad).deviation, 0.15, 1e-3);
}

TEST(ArmRates, NoisyMeasurementsCountLess) {
  ArmRates quiet = two_arms();
  ArmRates noisy = two_arms();
  for (int each = 0; each < 20; ++each) {
    quiet.add(1, kLoad, 1.25);
    noisy.add(1, kLoad, each % 2 == 0 ? 1.0 : 1.5);
  }
  EXPECT_GT(noisy.belief(1, kLoad).deviation, 2.0 * quiet.belief(1, kLoad).deviation);
}

TEST(ArmRates, WhatAnEarlierStartMeasuredIsBelievedLess) {
  ArmRates before = two_arms();
  for (int each = 0; each < 20; ++each) before.add(1, kLoad, 1.25);
  ArmRates rates = two_arms();
  rates.recall(before.measured());
  const ArmRates::Belief recalled = rates.belief(1, kLoad);
  EXPECT_NEAR(recalled.mean, std::log(1.25), 0.05);
  EXPECT_LT(recalled.deviation, 0.07);
  EXPECT_GT(recalled.deviation, 2.0 * before.belief(1, kLoad).deviation);
  EXPECT_DOUBLE_EQ(rates.belief(0, kLoad).mean, 0.1);
  // A few measurements contradict it.
  for (int each = 0; each < 3; ++each) rates.add(1, kLoad, 0.9);
  EXPECT_LT(rates.belief(1, kLoad).mean, 0.0);
}

TEST(ArmRates, WhatIsKeptIsBounded) {
  ArmRates rates = two_arms();
  for (int32_t sequences = 1; sequences <= 1024; sequences *= 2) {
    for (int64_t context = 16; context <= 1 << 20; context *= 2) {
      rates.add(0, {.sequences = sequences, .context_tokens = context}, 1.1);
    }
  }
  rates.pass(100.0);
  rates.add(0, kLoad, 1.2);
  const std::vector<MeasuredArm> kept = rates.measured();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].loads.size(), 64u);
  EXPECT_NEAR(kept[0].loads.front().sequences, 8.0, 1e-9);  // the load with the highest weight
  EXPECT_TRUE(kept[1].loads.empty());
  rates.pass(1e5);
  EXPECT_TRUE(rates.measured()[0].loads.empty());
}

}  // namespace
}  // namespace forerun
