#include "engine/loop/auto_strategy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

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

  void restart() {
    made_.emplace(view_candidates(kFacts, 24.0, resolve), resolve);
    tokens_ = 0.0;
    seconds_ = 1.0;
  }

  LiveCosts costs_;
  std::shared_ptr<const SpeculationPlan> usual_ = resolve({.strategy = "auto"}).value();
  std::optional<AutoStrategy> made_{std::in_place, view_candidates(kFacts, 24.0, resolve), resolve};
  AutoStrategy& auto_ = *made_;
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
  ASSERT_FALSE(auto_.arms().is_in_trial());
  EXPECT_GT(run(5000, kLong, 1.0, 0.2, false), 4900);
}

// Nor is a trial of which nothing is measured kept for long.
TEST_F(AutoStrategyTest, ATrialThatIsNotMeasuredEnds) {
  run(20, kLong);
  ASSERT_TRUE(runs_a_view());
  EXPECT_LT(run(20'000, kLong, 1.0, 0.2, false), 400);
}

TEST_F(AutoStrategyTest, ATrialEndsWhereTheViewCoversAllOfTheText) {
  run(20, kLong);
  ASSERT_TRUE(runs_a_view());
  EXPECT_LT(run(1000, {.sequences = 2, .context_tokens = 300}, 2.0, 1.0), 20);
}

TEST_F(AutoStrategyTest, ContextsThatGoUpAndDownLeaveThePlan) {
  run(5000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  int32_t changes = 0;
  for (int32_t turn = 0; turn < 50; ++turn) {
    for (const int64_t context : {400, 32'000}) {
      const auto before = plan();
      const bool is_long = context > 400;
      BatchLoad load = kLong;
      load.context_tokens = context;
      run(is_long ? 20 : 3, load, 1.0, is_long ? 1.5 : 1.0);
      changes += plan() != before;
    }
  }
  EXPECT_LT(changes, 20);  // a trial, now and then
}

TEST_F(AutoStrategyTest, AStallIsNotMeasured) {
  run(5000, kLong, 1.0, 1.5);
  const int32_t arm = auto_.arms().running();
  const ArmRates::Belief before = auto_.arms().rates().belief(arm, kLong);
  seconds_ += 600.0;
  run(40, kLong, 1.0, 1.5);
  EXPECT_NEAR(auto_.arms().rates().belief(arm, kLong).mean, before.mean, 0.05);
  EXPECT_LT(auto_.arms().rates().belief(arm, kLong).deviation, 1.5 * before.deviation);
}

TEST_F(AutoStrategyTest, AViewThatIsRefusedIsNoArm) {
  const auto refused = [](const SpeculationOptions& options) {
    return options.draft_depth.value_or(1) > 1
               ? Result<std::shared_ptr<const SpeculationPlan>>(
                     Status(StatusCode::kInvalidArgument, "refused"))
               : resolve(options);
  };
  AutoStrategy choice(view_candidates(kFacts, 24.0, resolve), refused);
  for (int32_t step = 1; step <= 5000; ++step) {
    choice.look(costs_, kLong, {.tokens = 24 * step, .seconds = 1.0 + 0.03 * step});
    if (choice.plan(usual_) == usual_) {
      EXPECT_EQ(choice.arms().running(), 0);
    }
  }
}

// Where guesses turn out wrong, a view makes fewer.
TEST_F(AutoStrategyTest, GuessesShowTheirAcceptance) {
  for (const bool is_right : {true, false}) {
    restart();
    for (int32_t step = 0; step < 4000; ++step) {
      run(1, kLong, 1.0, 1.5);
      const int32_t guesses = plan()->draft_depth;
      if (runs_a_view()) auto_.observe(*plan(), guesses, is_right ? guesses : 0);
    }
    ASSERT_TRUE(runs_a_view());
    EXPECT_EQ(plan()->draft_depth, is_right ? 8 : 1);
  }
}

}  // namespace
}  // namespace forerun
