#include "engine/loop/auto_strategy.h"

#include <gtest/gtest.h>

#include <optional>
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
  const std::shared_ptr<const SpeculationPlan>& plan() const { return auto_->plan(usual_); }
  // Runs `steps` Steps of 30 ms in which each sequence gains `tokens` on average. Returns whether
  // the plan has changed.
  bool look(int32_t sequences, int64_t context, int64_t free_tokens = 1'000'000,
            double tokens = 1.0, int32_t steps = 30) {
    bool changed = false;
    for (int32_t step = 0; step < steps; ++step) {
      progress_.tokens += static_cast<int64_t>(tokens * sequences);
      progress_.seconds += 0.03;
      changed |= auto_->look(costs_, {sequences, context, free_tokens}, progress_);
    }
    return changed;
  }

  // Runs Steps until the plan changes, of 24 sequences of 32,000 tokens that gain `tokens` each.
  int32_t looks_until_change(double tokens) {
    int32_t looks = 1;
    while (looks < 100'000 && !look(24, 32'000, 1'000'000, tokens, 1)) ++looks;
    return looks;
  }

  LiveCosts costs_;
  std::shared_ptr<const SpeculationPlan> usual_ = resolve({.strategy = "auto"}).value();
  void auto_again() { auto_.emplace(view_candidates(kFacts, 24.0, resolve), resolve); }
  std::optional<AutoStrategy> auto_{std::in_place, view_candidates(kFacts, 24.0, resolve), resolve};
  AutoStrategy::Progress progress_;
};

TEST_F(AutoStrategyTest, LongContextsInABatchAreDraftedThroughAView) {
  EXPECT_FALSE(look(1, 500));
  EXPECT_EQ(plan(), usual_);
  EXPECT_TRUE(look(24, 32'000));
  EXPECT_STREQ(plan()->strategy->name, "sparse_self");
  EXPECT_TRUE(plan()->automatic);
  EXPECT_FALSE(look(24, 32'100));  // nothing has changed
  EXPECT_TRUE(look(2, 600));
  EXPECT_EQ(plan(), usual_);
}

TEST_F(AutoStrategyTest, NotWhereTheUsualWayIsFaster) {
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 10.0));
  EXPECT_EQ(plan(), usual_);
}

TEST_F(AutoStrategyTest, ViewsOfTheirOwnBlocksNeedRoom) {
  look(24, 32'000, 0);
  EXPECT_STREQ(plan()->view.kind->name, "streaming_llm");
}

TEST_F(AutoStrategyTest, TheUsualWayIsMeasuredFirst) {
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 1.0, 20));
  EXPECT_FALSE(look(12, 32'000, 1'000'000, 1.0, 20));  // another load
  EXPECT_TRUE(look(12, 32'000, 1'000'000, 1.0, 10));
}

TEST_F(AutoStrategyTest, WhatBringsNoTokensIsGivenUpForLong) {
  look(24, 32'000);
  EXPECT_NE(plan(), usual_);
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 1.2, 300));  // faster: it stays
  EXPECT_TRUE(look(24, 32'000, 1'000'000, 0.9, 300));
  EXPECT_EQ(plan(), usual_);
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 1.0, 1000));
  EXPECT_TRUE(look(24, 32'000, 1'000'000, 1.0, 2000));  // and tried again
}

TEST_F(AutoStrategyTest, OneSlowMomentEndsNothingThatHasBeenFaster) {
  looks_until_change(1.0);
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 1.2, 300));
  const int32_t first_slow = looks_until_change(0.9);  // ended by the second measurement
  looks_until_change(1.0);
  EXPECT_GT(first_slow, looks_until_change(0.9));  // by the first, in a trial
}

TEST_F(AutoStrategyTest, TrialsThatFailAgainBecomeRarerUpToACeiling) {
  looks_until_change(1.0);
  for (const int32_t pause : {2000, 4000, 8000, 16'000, 32'000, 32'000}) {
    ASSERT_NE(plan(), usual_);
    ASSERT_LT(looks_until_change(0.9), 100);
    ASSERT_EQ(plan(), usual_);
    ASSERT_EQ(looks_until_change(1.0), pause);
  }
  looks_until_change(0.9);
  look(24, 32'000, 1'000'000, 1.0, 2000);
  EXPECT_EQ(plan(), usual_);
  look(12, 32'000, 1'000'000, 1.0, 30);  // another load, where nothing has failed yet
  EXPECT_NE(plan(), usual_);
}

TEST_F(AutoStrategyTest, ATrialThatSucceedsForgivesThoseBefore) {
  looks_until_change(1.0);
  for (const int32_t pause : {2000, 4000}) {
    looks_until_change(0.9);
    ASSERT_EQ(looks_until_change(1.0), pause);
  }
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 1.2, 300));
  looks_until_change(0.9);
  ASSERT_EQ(plan(), usual_);
  EXPECT_EQ(looks_until_change(1.0), 2000);
}

// Where nearly all guesses are wrong, nothing is left of the predicted gain. The view stays as long
// as requests measurably get their tokens faster with it, but not when the load changes.
TEST_F(AutoStrategyTest, WhatIsMeasuredCountsMoreThanWhatIsThought) {
  look(24, 32'000);
  ASSERT_NE(plan(), usual_);
  for (int step = 0; step < 200; ++step) {
    for (int sequence = 0; sequence < 24; ++sequence) auto_->observe(*plan(), 4, 0);
    ASSERT_FALSE(look(24, 32'000, 1'000'000, 2.0, 1) && plan() == usual_);
  }
  look(12, 32'000, 1'000'000, 2.0, 1);
  EXPECT_EQ(plan(), usual_);
}

// A view counts as proven only at the load at which it was faster. Where it was left because the
// load had changed, one slow measurement ends its next trial, as it ends a first trial.
TEST_F(AutoStrategyTest, WhatWasSeenOfAViewEndsWithIt) {
  looks_until_change(1.0);
  ASSERT_NE(plan(), usual_);
  const int32_t first_trial = looks_until_change(0.5);
  auto_again();
  ASSERT_TRUE(look(24, 32'000));
  EXPECT_FALSE(look(24, 32'000, 1'000'000, 4.0, 200));
  ASSERT_TRUE(look(2, 600));
  ASSERT_EQ(plan(), usual_);
  looks_until_change(1.0);
  ASSERT_NE(plan(), usual_);
  EXPECT_EQ(looks_until_change(0.5), first_trial);
  EXPECT_EQ(plan(), usual_);
}

}  // namespace
}  // namespace forerun
