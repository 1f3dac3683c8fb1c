#include "engine/loop/auto_strategy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "strategies/strategy_table.h"

namespace forerun {
namespace {

constexpr ModelFacts kFacts = {.has_draft_model = false, .max_context = 40'000};

// Weights take 4 ms, a million tokens of the cache 30 ms, a row 5 us.
class AutoStrategyTest : public ::testing::Test {
 protected:
  AutoStrategyTest() {
    StepCosts costs;
    for (const int32_t rows : {1, 1024}) {
      costs.add(Role::kTarget, {rows}, 4e-3 + 5e-6 * rows);
    }
    costs.set_slopes(Role::kTarget, {.per_kv_token = 3e-8});
    costs_.set(costs);
  }
  static Result<std::shared_ptr<const SpeculationPlan>> resolve(const SpeculationOptions& options) {
    return resolve_speculation(options, kFacts);
  }
  const std::shared_ptr<const SpeculationPlan>& plan() const { return auto_.plan(usual_); }
  bool runs_a_view() const { return plan() != usual_; }
  // Runs `steps` Steps of 30 ms, in which each sequence gains `usual` tokens by the usual plan and
  // `by_view` by a view, on average. Returns the number of Steps that were a view's.
  int32_t run(int32_t steps, BatchLoad load, double usual = 1.0, double by_view = 1.0,
              bool is_measurable = true) {
    int32_t of_views = 0;
    for (int32_t step = 0; step < steps; ++step) {
      of_views += runs_a_view();
      tokens_ += load.sequences * (runs_a_view() ? by_view : usual);
      seconds_ += 0.03;
      const auto before = plan();
      const bool has_changed = auto_.look(costs_, load,
                                          {.tokens = static_cast<int64_t>(tokens_),
                                           .seconds = seconds_,
                                           .is_measurable = is_measurable});
      EXPECT_EQ(has_changed, plan() != before);
    }
    return of_views;
  }

  LiveCosts costs_;
  std::shared_ptr<const SpeculationPlan> usual_ = resolve({.strategy = "auto"}).value();
  AutoStrategy auto_{view_candidates(kFacts, 24.0, resolve), resolve};
  double tokens_ = 0.0;
  double seconds_ = 1.0;
};

constexpr BatchLoad kLong = {.sequences = 24, .context_tokens = 32'000, .free_tokens = 1'000'000};
constexpr BatchLoad kShort = {.sequences = 2, .context_tokens = 600, .free_tokens = 1'000'000};

TEST_F(AutoStrategyTest, LongContextsInABatchAreDraftedThroughAView) {
  run(200, {.sequences = 1, .context_tokens = 500});
  EXPECT_FALSE(runs_a_view());
  run(2000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  EXPECT_STREQ(plan()->strategy->name, "sparse_self");
  EXPECT_TRUE(plan()->automatic);
  EXPECT_GT(run(5000, kLong, 1.0, 1.5), 4900);
  run(500, kShort, 1.0, 0.7);
  EXPECT_FALSE(runs_a_view());
  // What is known of the long contexts is not forgotten meanwhile.
  run(50, kLong, 1.0, 1.5);
  EXPECT_TRUE(runs_a_view());
}

TEST_F(AutoStrategyTest, NotWhereTheUsualWayIsFaster) { EXPECT_EQ(run(5000, kLong, 10.0), 0); }

TEST_F(AutoStrategyTest, ViewsOfTheirOwnBlocksNeedRoom) {
  BatchLoad full = kLong;
  full.free_tokens = 0;
  for (int32_t step = 0; step < 2000; ++step) {
    run(1, full, 1.0, 1.5);
    if (runs_a_view()) {
      EXPECT_STREQ(plan()->view.kind->name, "streaming_llm");
    }
  }
  EXPECT_TRUE(runs_a_view());
}

TEST_F(AutoStrategyTest, TheUsualWayIsMeasuredFirst) {
  EXPECT_EQ(run(15, kLong), 0);
  EXPECT_FALSE(runs_a_view());
  run(5, kLong);
  EXPECT_TRUE(runs_a_view());
}

TEST_F(AutoStrategyTest, WhatBringsNoTokensIsTriedForAFiftiethOfTheTime) {
  const int32_t steps = 20'000;
  const int32_t tried = run(steps, kLong, 1.0, 0.6);
  EXPECT_GT(tried, 16);
  EXPECT_LT(tried, steps / 50);
}

TEST_F(AutoStrategyTest, WhatWasSlowIsTriedAgain) {
  run(1000, kLong, 1.0, 0.8);  // every view is predicted to be much faster
  EXPECT_LT(run(20'000, kLong, 1.0, 0.8), 400);
  EXPECT_GT(run(100'000, kLong, 1.0, 1.6), 50'000);
}

TEST_F(AutoStrategyTest, AViewThatGrowsSlowIsLeft) {
  run(5000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  const int32_t steps = 20'000;
  EXPECT_LT(run(steps, kLong, 1.0, 0.7), steps / 4);
  EXPECT_FALSE(runs_a_view());
}

// Neither what requests with strategies of their own decode, nor what others decode while prompts
// are read, says anything about the engine's plan.
TEST_F(AutoStrategyTest, OtherWorkIsNotMeasured) {
  const ArmRates::Belief before = auto_.arms().rates().belief(0, kLong);
  run(5000, kLong, 1.0, 1.5, false);
  EXPECT_EQ(auto_.arms().rates().belief(0, kLong).mean, before.mean);
  EXPECT_EQ(auto_.arms().rates().belief(0, kLong).deviation, before.deviation);
  run(2000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  EXPECT_GT(run(5000, kLong, 1.0, 0.2, false), 4900);
}

// Guesses that turn out wrong lower what a view is predicted to bring, at every load.
TEST_F(AutoStrategyTest, GuessesShowTheirAcceptance) {
  run(20, kLong);
  ASSERT_TRUE(runs_a_view());
  const auto tried = plan();
  for (int32_t round = 0; round < 400; ++round) auto_.observe(*tried, 4, 0);
  run(200, kLong, 1.0, 0.5);
  int32_t again = 0;
  for (int32_t step = 0; step < 3000; ++step) {
    run(1, kLong, 1.0, 0.5);
    again += runs_a_view() && plan()->view.kind == tried->view.kind &&
             plan()->view.budget == tried->view.budget;
  }
  EXPECT_LT(again, 60);
}

}  // namespace
}  // namespace forerun
