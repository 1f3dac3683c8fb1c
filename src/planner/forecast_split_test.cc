// Tests the forecasts of the profile phase for splits with published and measured Step times,
// without a clock.
#include "planner/forecast_split.h"

#include <gtest/gtest.h>

#include <string>

#include "exec/emulated/step_profile.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

CostTable costs_on(const std::string& profile) {
  auto loaded = load_step_profile("bench/profiles/" + profile);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded->costs.table(1, 256);
}

double best(const CostTable& costs, bool concurrent) {
  const std::vector<ForecastPlan> plans = forecast_plans(costs, {.concurrent = concurrent}).value();
  EXPECT_GE(plans.front().tokens_per_s, plans.back().tokens_per_s);
  return plans.front().tokens_per_s;
}

// SwiftSpec's Table 6: on 8 GPUs a split is 1.37 times as fast as the best sequential choice.
TEST(ForecastSplit, ASplitPaysOnThePapersMachine) {
  const double sequential = best(costs_on("swiftspec.json#qwen2-72b-serial"), false);
  const double apart = best(costs_on("swiftspec.json#qwen2-72b-parallel"), true);
  EXPECT_GT(apart, 1.2 * sequential);
  EXPECT_LT(apart, 2.0 * sequential);
}

// Table 1's times: the target on four GPUs beside any draft on one, two or four of the others beats
// all eight sequentially, and the largest draft needs more than one.
TEST(ForecastSplit, EverySplitOfTable1BeatsTakingTurns) {
  for (const std::string draft : {"1b", "3b", "8b"}) {
    const std::string table = "swiftspec.json#table1-llama3-70b-";
    const double sequential = best(costs_on(table + draft + "-shared-tp8"), false);
    std::vector<double> apart;
    for (const char* degree : {"1", "2", "4"}) {
      apart.push_back(best(costs_on(table + "tp4-" + draft + "-tp" + degree), true));
      EXPECT_GT(apart.back(), 1.1 * sequential) << draft << " on " << degree;
    }
    if (draft == "8b") {
      EXPECT_GT(apart[1], 1.05 * apart[0]);
    }
  }
}

// The demo pair on two cores: one core runs the target at half the speed or less.
TEST(ForecastSplit, TakingTurnsPaysOnTwoCores) {
  const double sequential = best(costs_on("zen4.json#demo-shared"), false);
  const double apart = best(costs_on("zen4.json#demo-separate"), true);
  EXPECT_GT(sequential, 1.2 * apart);
}

TEST(ForecastSplit, BothPlansOfASplitAreThere) {
  const std::vector<ForecastPlan> plans =
      forecast_plans(costs_on("swiftspec.json#qwen2-72b-parallel"), {.concurrent = true}).value();
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_NE(describe(plans[0].plan), describe(plans[1].plan));
  for (const ForecastPlan& plan : plans) {
    const auto speculation = resolve_speculation({}, {}, plan.plan);
    ASSERT_TRUE(speculation.ok()) << speculation.status().message();
    EXPECT_EQ((*speculation)->strategy->name, plan.plan.strategy);
    EXPECT_EQ((*speculation)->extra_draft_steps, plan.plan.extra_draft_steps);
    EXPECT_GT(plan.tokens_per_s, 0.0);
  }
}

TEST(ForecastSplit, LevelsOfATreeFillStagesWhereTheDraftKeepsUp) {
  const CostTable costs = costs_on("specpipe.json#single-server");
  const auto eight = forecast_plans(costs, {.concurrent = true, .target_stages = 8}).value();
  EXPECT_EQ(describe(eight.front().plan), "pipelined");
  EXPECT_GT(eight.front().tokens_per_s, 1.2 * eight[1].tokens_per_s);
  const auto whole = forecast_plans(costs, {.concurrent = true}).value();
  for (const ForecastPlan& plan : whole) {
    EXPECT_NE(plan.plan.strategy, "pipelined");
  }
}

}  // namespace
}  // namespace forerun
