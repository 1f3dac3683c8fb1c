#include "planner/cost_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace forerun {
namespace {

constexpr Role kTarget = Role::kTarget;
constexpr Role kDraft = Role::kDraft;

TEST(CostModel, GoesThroughWhatWasMeasured) {
  CostModel model;
  const std::vector<CostPoint> points = {{kTarget, 1, 1e-3},
                                         {kTarget, 8, 1.5e-3},
                                         {kTarget, 32, 4e-3},
                                         {kDraft, 1, 2e-4},
                                         {kDraft, 8, 2e-4}};
  model.fit(points);
  const CostTable table = model.table();
  for (const CostPoint& point : points) {
    EXPECT_NEAR(table.at(point.role, point.rows), point.seconds, 1e-8);
  }
  EXPECT_NEAR(table.at(kTarget, 4), 1e-3 + 0.5e-3 * 3 / 7, 1e-8);
  EXPECT_NEAR(table.at(kTarget, 20), 1.5e-3 + 2.5e-3 / 2, 1e-8);
  EXPECT_NEAR(table.at(kTarget, 64), 4e-3 + 2.5e-3 / 24 * 32, 1e-8);
  EXPECT_NEAR(table.at(kDraft, 128), 2e-4, 1e-8);
  EXPECT_TRUE(table.measured());
}

TEST(CostModel, KeepsJumpsBehindEightAndSixteenRows) {
  CostModel model;
  const std::vector<CostPoint> points = {{kTarget, 8, 6e-3},
                                         {kTarget, 9, 7e-3},
                                         {kTarget, 16, 7e-3},
                                         {kTarget, 17, 9e-3},
                                         {kTarget, 24, 9e-3}};
  model.fit(points);
  const CostTable table = model.table();
  for (const CostPoint& point : points) {
    EXPECT_NEAR(table.at(kTarget, point.rows), point.seconds, 1e-8) << point.rows;
  }
}

TEST(CostModel, MoreRowsNeverCostLessAndRepeatsCountByTheirMedian) {
  CostModel model;
  const std::vector<CostPoint> points = {{kTarget, 1, 1e-3},
                                         {kTarget, 1, 9e-3},
                                         {kTarget, 1, 1.1e-3},
                                         {kTarget, 4, 0.9e-3},
                                         {kTarget, 8, 2e-3}};
  model.fit(points);
  const CostTable table = model.table();
  EXPECT_NEAR(table.at(kTarget, 1), 1.1e-3, 1e-8);
  for (int32_t rows = 2; rows <= 128; ++rows) {
    EXPECT_GE(table.at(kTarget, rows), table.at(kTarget, rows - 1));
  }
}

TEST(CostModel, OnePointAndNoneAndUnusableOnes) {
  CostModel model;
  EXPECT_FALSE(model.table().measured());
  model.observe({kTarget, 1, 1e-3});
  EXPECT_FALSE(model.fitted(kTarget));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<CostPoint> unusable = {{kTarget, 0, 1e-3}, {kTarget, 1, nan}, {kTarget, 2, -1}};
  model.fit(unusable);
  EXPECT_FALSE(model.fitted(kTarget));
  const std::vector<CostPoint> one = {{kTarget, 1, 1e-3}};
  model.fit(one);
  EXPECT_NEAR(model.table().at(kTarget, 8), 1e-3 * 1.28, 1e-8);
  EXPECT_EQ(model.table().at(kDraft, 1), 0.0f);
}

TEST(CostModel, FollowsALastingChangeAndShrugsOffOutliers) {
  CostModel model;
  const std::vector<CostPoint> points = {{kTarget, 1, 1e-3}, {kTarget, 8, 1.4e-3}};
  model.fit(points);
  model.observe({kTarget, 1, 0.1});
  EXPECT_LT(model.table().at(kTarget, 1), 1.03e-3);
  model.observe({kTarget, 1, std::numeric_limits<double>::infinity()});
  EXPECT_LT(model.table().at(kTarget, 1), 1.03e-3);
  // Every hundredth Step is preempted: no drift beyond 3%.
  for (int i = 0; i < 1000; ++i) model.observe({kTarget, 1, i % 100 == 0 ? 0.05 : 1e-3});
  EXPECT_NEAR(model.table().at(kTarget, 1), 1e-3, 3e-5);
  // The machine has become a fifth slower.
  for (int i = 0; i < 200; ++i) {
    model.observe({kTarget, 1, 1.2e-3});
    model.observe({kTarget, 8, 1.68e-3});
  }
  EXPECT_NEAR(model.table().at(kTarget, 1), 1.2e-3, 2.5e-5);
  EXPECT_NEAR(model.table().at(kTarget, 8), 1.68e-3, 3.5e-5);
}

TEST(CostModel, FollowsALargeChangeWithinEightSteps) {
  const std::vector<CostPoint> points = {{kTarget, 1, 1e-3}, {kTarget, 8, 2e-3}, {kDraft, 1, 1e-4}};
  CostModel model;
  model.fit(points);
  // Five times as slow, but for two moments of grace.
  for (int i = 0; i < 8; ++i) model.observe({kTarget, 8, i % 4 == 0 ? 2e-3 : 1e-2});
  EXPECT_GT(model.table().at(kTarget, 8), 8e-3);
  EXPECT_GT(model.table().at(kTarget, 1), 4e-3);
  EXPECT_GT(model.table().at(kDraft, 1), 2e-4);  // it has the same neighbours
  for (int i = 0; i < 16; ++i) model.observe({kTarget, 8, 2e-3});
  EXPECT_NEAR(model.table().at(kTarget, 8), 2e-3, 3e-4);
  // Every other Step late is what the machine is like, not a change.
  CostModel noisy;
  noisy.fit(points);
  for (int i = 0; i < 80; ++i) noisy.observe({kTarget, 1, i % 2 == 0 ? 1e-3 : 5e-3});
  EXPECT_LT(noisy.table().at(kTarget, 1), 3e-3);
}

}  // namespace
}  // namespace forerun
