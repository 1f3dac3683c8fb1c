#include "step/step_costs.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace forerun {
namespace {

constexpr Role kTarget = Role::kTarget;
constexpr Role kDraft = Role::kDraft;

struct Time {
  Role role = kTarget;
  int32_t rows = 1;
  double seconds = 0.0;
};

void fill(StepCosts& costs, const std::vector<Time>& times) {
  for (const Time& time : times) costs.add(time.role, {time.rows}, time.seconds);
}

TEST(StepCosts, GoesThroughWhatWasMeasured) {
  StepCosts model;
  const std::vector<Time> points = {{kTarget, 1, 1e-3},
                                    {kTarget, 8, 1.5e-3},
                                    {kTarget, 32, 4e-3},
                                    {kDraft, 1, 2e-4},
                                    {kDraft, 8, 2e-4}};
  fill(model, points);
  const CostTable table = model.table();
  for (const Time& point : points) {
    EXPECT_NEAR(table.at(point.role, point.rows), point.seconds, 1e-8);
  }
  EXPECT_NEAR(table.at(kTarget, 4), 1e-3 + 0.5e-3 * 3 / 7, 1e-8);
  EXPECT_NEAR(table.at(kTarget, 20), 1.5e-3 + 2.5e-3 / 2, 1e-8);
  EXPECT_NEAR(table.at(kTarget, 64), 4e-3 + 2.5e-3 / 24 * 32, 1e-8);
  EXPECT_NEAR(table.at(kDraft, 128), 2e-4, 1e-8);
  EXPECT_TRUE(table.measured());
}

TEST(StepCosts, KeepsJumpsBehindEightAndSixteenRows) {
  StepCosts model;
  const std::vector<Time> points = {{kTarget, 8, 6e-3},
                                    {kTarget, 9, 7e-3},
                                    {kTarget, 16, 7e-3},
                                    {kTarget, 17, 9e-3},
                                    {kTarget, 24, 9e-3}};
  fill(model, points);
  const CostTable table = model.table();
  for (const Time& point : points) {
    EXPECT_NEAR(table.at(kTarget, point.rows), point.seconds, 1e-8) << point.rows;
  }
}

// The last two entries may lie on both sides of a jump: beyond them each row adds the average cost
// of a row, not another jump.
TEST(StepCosts, BeyondTheLargestEntryRowsCostWhatTheyDidOverTheLastDoubling) {
  StepCosts model;
  fill(model,
       {{kTarget, 64, 5e-3}, {kTarget, 65, 6e-3}, {kTarget, 128, 7e-3}, {kTarget, 129, 9e-3}});
  EXPECT_NEAR(model.seconds(kTarget, {194}), 9e-3 + 4e-3, 1e-8);
  EXPECT_NEAR(model.seconds(kTarget, {129}), 9e-3, 1e-8);
  // The slope is taken over all entries if they lie within one doubling.
  fill(model, {{kDraft, 100, 5e-3}, {kDraft, 128, 6e-3}, {kDraft, 129, 8e-3}});
  EXPECT_NEAR(model.seconds(kDraft, {158}), 11e-3, 1e-8);
}

TEST(StepCosts, MoreRowsNeverCostLessAndRepeatsCountByTheirMedian) {
  StepCosts model;
  const std::vector<Time> points = {{kTarget, 1, 1e-3},
                                    {kTarget, 1, 9e-3},
                                    {kTarget, 1, 1.1e-3},
                                    {kTarget, 4, 0.9e-3},
                                    {kTarget, 8, 2e-3}};
  fill(model, points);
  const CostTable table = model.table();
  EXPECT_NEAR(table.at(kTarget, 1), 1.1e-3, 1e-8);
  for (int32_t rows = 2; rows <= 128; ++rows) {
    EXPECT_GE(table.at(kTarget, rows), table.at(kTarget, rows - 1));
  }
}

TEST(StepCosts, OnePointAndNoneAndUnusableOnes) {
  StepCosts model;
  EXPECT_FALSE(model.table().measured());
  model.observe(kTarget, {1}, 1e-3);
  EXPECT_FALSE(model.has(kTarget));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Time> unusable = {{kTarget, 0, 1e-3}, {kTarget, 1, nan}, {kTarget, 2, -1}};
  fill(model, unusable);
  EXPECT_FALSE(model.has(kTarget));
  const std::vector<Time> one_point = {{kTarget, 1, 1e-3}};
  fill(model, one_point);
  EXPECT_NEAR(model.table().at(kTarget, 8), 1e-3 * 1.28, 1e-8);
  EXPECT_EQ(model.table().at(kDraft, 1), 0.0f);
}

TEST(StepCosts, FollowsALastingChangeAndShrugsOffOutliers) {
  StepCosts model;
  const std::vector<Time> points = {{kTarget, 1, 1e-3}, {kTarget, 8, 1.4e-3}};
  fill(model, points);
  model.observe(kTarget, {1}, 0.1);
  EXPECT_LT(model.table().at(kTarget, 1), 1.03e-3);
  model.observe(kTarget, {1}, std::numeric_limits<double>::infinity());
  EXPECT_LT(model.table().at(kTarget, 1), 1.03e-3);
  // If every hundredth Step is preempted, the correction drifts by at most 3%.
  for (int i = 0; i < 1000; ++i) model.observe(kTarget, {1}, i % 100 == 0 ? 0.05 : 1e-3);
  EXPECT_NEAR(model.table().at(kTarget, 1), 1e-3, 3e-5);
  // The machine becomes a fifth slower.
  for (int i = 0; i < 200; ++i) {
    model.observe(kTarget, {1}, 1.2e-3);
    model.observe(kTarget, {8}, 1.68e-3);
  }
  EXPECT_NEAR(model.table().at(kTarget, 1), 1.2e-3, 2.5e-5);
  EXPECT_NEAR(model.table().at(kTarget, 8), 1.68e-3, 3.5e-5);
}

TEST(StepCosts, FollowsALargeChangeWithinEightSteps) {
  const std::vector<Time> points = {{kTarget, 1, 1e-3}, {kTarget, 8, 2e-3}, {kDraft, 1, 1e-4}};
  StepCosts model;
  fill(model, points);
  // All observations but two are five times as slow.
  for (int i = 0; i < 8; ++i) model.observe(kTarget, {8}, i % 4 == 0 ? 2e-3 : 1e-2);
  EXPECT_GT(model.table().at(kTarget, 8), 8e-3);
  EXPECT_GT(model.table().at(kTarget, 1), 4e-3);
  EXPECT_GT(model.table().at(kDraft, 1), 2e-4);  // its neighbours are the same
  for (int i = 0; i < 16; ++i) model.observe(kTarget, {8}, 2e-3);
  EXPECT_NEAR(model.table().at(kTarget, 8), 2e-3, 3e-4);
  // If every other Step is late, that is the machine's normal state, not a change.
  StepCosts noisy;
  fill(noisy, points);
  for (int i = 0; i < 80; ++i) noisy.observe(kTarget, {1}, i % 2 == 0 ? 1e-3 : 5e-3);
  EXPECT_LT(noisy.table().at(kTarget, 1), 3e-3);
}

TEST(StepCosts, AreExactAtEntriesAndLinearBetweenThem) {
  StepCosts costs;
  costs.add(kTarget, {8, 1000}, 0.010);
  costs.add(kTarget, {16, 1000}, 0.014);
  costs.add(kTarget, {8, 3000}, 0.020);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {8, 1000}), 0.010);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {12, 1000}), 0.012);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {1, 1000}), 0.010);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {24, 1000}), 0.018);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {8, 2000}), 0.015);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {8, 10}), 0.010);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {8, 90000}), 0.020);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {9, 3000}), 0.020 * 1.04);
}

TEST(StepCosts, RepeatedEntriesCountByTheirMedian) {
  StepCosts costs;
  for (const double seconds : {0.05, 0.01, 0.02}) costs.add(kTarget, {4, 0}, seconds);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {4, 0}), 0.02);
  costs.add(kTarget, {4, 0}, 0.04);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {4, 0}), 0.03);
}

TEST(StepLoadOf, SumsTheLongestContextOfEachSequence) {
  Step step;
  step.sequences.resize(2);
  for (const int32_t visible : {11, 13, 12}) {
    StepRow row;
    row.position = 100;
    row.visible = visible;
    step.rows.push_back(row);
  }
  StepRow other;
  other.sequence_idx = 1;
  other.position = 99;
  other.visible = 100;
  step.rows.push_back(other);
  const StepLoad load = load_of(step);
  EXPECT_EQ(load.rows, 4);
  EXPECT_EQ(load.kv_tokens, 113);
  EXPECT_EQ(load.sequences, 2);
  EXPECT_EQ(load.attended_tokens, 11 + 13 + 12 + 100);
}

// A Step of four sequences with two rows each counts as eight rows that read four contexts.
TEST(StepCosts, ATableIsOfTheWholeBatchsStep) {
  StepCosts costs;
  costs.add(kTarget, {1, 0}, 1e-3);
  costs.add(kTarget, {8, 0}, 1.7e-3);
  costs.set_slopes(kTarget,
                   {.per_kv_token = 1e-7, .per_attended_token = 1e-8, .per_sequence = 1e-5});
  const double read = 4000 * 1e-7 + 3 * 1e-5;
  EXPECT_NEAR(costs.seconds(kTarget, even_load(4, 2, 1000)), 1.7e-3 + read + 8000 * 1e-8, 1e-9);
  const CostTable table = costs.table(4, 1000);
  EXPECT_NEAR(table.at(kTarget, 2), 1.7e-3 + read + 8000 * 1e-8, 1e-8);
  EXPECT_NEAR(table.at(kTarget, 1), 1.3e-3 + read + 4000 * 1e-8, 1e-8);
  EXPECT_NEAR(costs.table().at(kTarget, 8), 1.7e-3, 1e-8);
}

// A server decodes a batch plainly, then speculates for one request at a time. Some Steps of target
// and draft take a little less than expected, some a little more. However long that continues, the
// times of Steps that do not run must stay.
TEST(StepCosts, RowsThatAreNotRunDoNotDrift) {
  const std::vector<int32_t> measured = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  const auto target = [](int32_t rows) { return 1e-3 + 2e-5 * rows; };
  const auto draft = [](int32_t rows) { return 1e-4 + 4e-6 * rows; };
  StepCosts costs;
  for (const int32_t rows : measured) {
    costs.add(kTarget, {rows}, target(rows));
    costs.add(kDraft, {rows}, draft(rows));
  }
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 250; ++i) costs.observe(kTarget, even_load(8, 1, 0), 0.98 * target(8));
    for (int i = 0; i < 40; ++i) {
      for (const int32_t rows : {8, 16, 32, 2, 4}) {
        costs.observe(kTarget, {rows}, 1.05 * target(rows));
      }
      for (const int32_t rows : {1, 2, 14}) costs.observe(kDraft, {rows}, 0.94 * draft(rows));
    }
  }
  for (const int32_t rows : {64, 128, 512}) {
    EXPECT_NEAR(costs.seconds(kTarget, {rows}), target(rows), 0.05 * target(rows)) << rows;
    EXPECT_NEAR(costs.seconds(kDraft, {rows}), draft(rows), 0.05 * draft(rows)) << rows;
  }
}

// A target drafts for itself for minutes, and its Steps through a view take longer than measured.
// The predictions for other Steps, which do not run meanwhile, must stay as they were.
TEST(StepCosts, StepsThroughAViewAreCorrectedApart) {
  StepCosts costs;
  costs.add(kTarget, {1, 0}, 1e-3);
  costs.add(kTarget, {64, 0}, 2e-3);
  costs.set_slopes(kTarget, {.per_kv_token = 4e-8});
  StepLoad draft = even_load(24, 1, 512);
  draft.through_view = true;
  const StepLoad plain = even_load(24, 1, 2048);
  const double draft_seconds = costs.seconds(kTarget, draft);
  const double plain_seconds = costs.seconds(kTarget, plain);
  for (int i = 0; i < 20000; ++i) costs.observe(kTarget, draft, 1.06 * draft_seconds);
  EXPECT_NEAR(costs.seconds(kTarget, draft), 1.06 * draft_seconds, 0.01 * draft_seconds);
  EXPECT_NEAR(costs.seconds(kTarget, plain), plain_seconds, 0.02 * plain_seconds);
}

TEST(StepLoadOf, SeesWhetherARowSeesItsWholeText) {
  Step step;
  step.sequences.resize(1);
  step.rows.push_back({.position = 20, .visible = 21});
  EXPECT_FALSE(load_of(step).through_view);
  step.rows.push_back({.position = 21, .visible = 21});
  EXPECT_TRUE(load_of(step).through_view);
}

// A correction learnt at one load applies to other loads with as many rows.
TEST(StepCosts, AnObservationOfABatchCorrectsItsRows) {
  StepCosts costs;
  costs.add(kTarget, {1, 0}, 1e-3);
  costs.add(kTarget, {32, 0}, 2e-3);
  costs.set_slopes(kTarget, {.per_kv_token = 1e-7});
  const StepLoad batch = even_load(32, 1, 1000);
  for (int i = 0; i < 400; ++i) costs.observe(kTarget, batch, 1.1 * (2e-3 + 3.2e-3));
  EXPECT_NEAR(costs.seconds(kTarget, batch), 1.1 * 5.2e-3, 1e-4);
  EXPECT_NEAR(costs.seconds(kTarget, {32, 0}), 1.1 * 2e-3, 1e-4);
}

// The target has four stages of 2 ms and links of 1 ms plus 0.5 ms per row.
TEST(StepCosts, StagesHaveLinksAndAnInterval) {
  StepCosts costs;
  costs.add(kTarget, {1, 0}, 8e-3);
  costs.add(kTarget, {64, 0}, 8e-3);
  costs.add(kDraft, {1, 0}, 1e-3);
  EXPECT_FLOAT_EQ(costs.table().interval_at(7), 8e-3f) << "in one piece";
  costs.set_stages({.count = 4, .link_seconds = 1e-3, .link_row_seconds = 0.5e-3});
  const CostTable table = costs.table();
  EXPECT_FLOAT_EQ(table.at(kTarget, 2), 8e-3f + 3 * 1e-3f + 4 * 1e-3f);
  EXPECT_FLOAT_EQ(table.interval_at(2), 2e-3f) << "a stage's";
  EXPECT_FLOAT_EQ(table.interval_at(10), 5e-3f) << "a link's";
  EXPECT_FLOAT_EQ(table.entry_at(10), 2e-3f);
  EXPECT_FLOAT_EQ(costs.table(3).interval_at(10), 15e-3f) << "three sequences";
  EXPECT_FLOAT_EQ(table.at(kDraft, 1), 1e-3f);
  EXPECT_DOUBLE_EQ(costs.seconds(kTarget, {2, 0}), 8e-3);
}

}  // namespace
}  // namespace forerun
