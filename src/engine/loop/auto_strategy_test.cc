#include "engine/loop/auto_strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "strategies/strategy_table.h"

namespace forerun {
namespace {

const std::vector<GuessSources> kUsual = {GuessSources{}};
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
  // `by_view` by a view, on average. Returns the number of Steps that ran a view.
  int32_t run(int32_t steps, BatchLoad load, double usual = 1.0, double by_view = 1.0,
              bool is_measurable = true) {
    int32_t of_views = 0;
    for (int32_t step = 0; step < steps; ++step) {
      of_views += runs_a_view();
      tokens_ += (load.sequences - others_) * (runs_a_view() ? by_view : usual);
      seconds_ += others_ > 0 ? slowed_ * 0.03 : 0.03;
      const auto before = plan();
      const bool has_changed = auto_.look(costs_, load,
                                          {.tokens = static_cast<int64_t>(tokens_),
                                           .seconds = seconds_,
                                           .sequences = load.sequences - others_,
                                           .is_measurable = is_measurable});
      EXPECT_EQ(has_changed, plan() != before);
    }
    return of_views;
  }

  void restart() {
    made_.emplace(kUsual, view_candidates(kFacts, 24.0, resolve), resolve);
    tokens_ = 0.0;
    seconds_ = 1.0;
  }

  LiveCosts costs_;
  std::shared_ptr<const SpeculationPlan> usual_ = resolve({.strategy = "auto"}).value();
  std::optional<AutoStrategy> made_{std::in_place, kUsual, view_candidates(kFacts, 24.0, resolve),
                                    resolve};
  AutoStrategy& auto_ = *made_;
  double tokens_ = 0.0;
  double seconds_ = 1.0;
  int32_t others_ = 0;   // sequences with fixed plans
  double slowed_ = 1.3;  // factor by which these lengthen Steps
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
  // The measurements of the long contexts are not forgotten meanwhile.
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

// Decoding while prompts are read says nothing about the engine's plan.
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

// Requests with fixed plans do not disable views for the others.
TEST_F(AutoStrategyTest, ViewsAreFoundBesideRequestsByTheirOwnPlans) {
  for (const double slowed : {0.8, 1.0, 1.5}) {
    restart();
    slowed_ = slowed;
    others_ = 8;
    run(2000, kLong, 1.0, 1.5);
    EXPECT_TRUE(runs_a_view()) << slowed;
    EXPECT_GT(run(5000, kLong, 1.0, 1.5), 4800) << slowed;
  }
}

TEST_F(AutoStrategyTest, SlowViewsAreLeftBesideRequestsByTheirOwnPlans) {
  for (const double slowed : {0.8, 1.0, 1.5}) {
    restart();
    slowed_ = slowed;
    others_ = 8;
    EXPECT_LT(run(20'000, kLong, 1.0, 0.7), 600) << slowed;
    EXPECT_FALSE(runs_a_view()) << slowed;
  }
}

// Such requests come and go, and Steps get longer and shorter: this is not attributed to the arms.
TEST_F(AutoStrategyTest, RequestsByTheirOwnPlansMayComeAndGo) {
  slowed_ = 1.5;
  run(5000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  int32_t of_views = 0;
  for (int32_t turn = 0; turn < 20; ++turn) {
    others_ = turn % 3 * 6;
    of_views += run(200, kLong, 1.0, 1.5);
  }
  EXPECT_GT(of_views, 3800);
  others_ = 24;
  run(500, kLong, 1.0, 1.0);  // no request is left to measure
  others_ = 0;
  EXPECT_GT(run(1000, kLong, 1.0, 1.5), 900);
}

// A trial without measurements also ends soon.
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
  EXPECT_LT(changes, 20);  // an occasional trial
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
  AutoStrategy choice(kUsual, view_candidates(kFacts, 24.0, resolve), refused);
  for (int32_t step = 1; step <= 5000; ++step) {
    choice.look(costs_, kLong,
                {.tokens = 24 * step, .seconds = 1.0 + 0.03 * step, .sequences = 24});
    if (choice.plan(usual_) == usual_) {
      EXPECT_EQ(choice.arms().running(), 0);
    }
  }
}

// Measurements of an earlier engine make trials unnecessary.
TEST_F(AutoStrategyTest, KnowsAfterARestartWhatItHasMeasured) {
  run(5000, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  const MeasuredArms measured = auto_.measured();
  EXPECT_EQ(measured.arms.size(), auto_.names().size());
  EXPECT_GT(auto_.measurements(), 0);
  restart();
  auto_.recall(measured);
  run(10, kLong, 1.0, 1.5);
  ASSERT_TRUE(runs_a_view());
  EXPECT_FALSE(auto_.arms().is_in_trial());
  EXPECT_GT(run(1000, kLong, 1.0, 1.5), 950);
}

// Measurements of slow views are kept, too.
TEST_F(AutoStrategyTest, KnowsAfterARestartWhatWasSlow) {
  run(20'000, kLong, 1.0, 0.6);
  ASSERT_FALSE(runs_a_view());
  const MeasuredArms measured = auto_.measured();
  restart();
  const int32_t without = run(1000, kLong, 1.0, 0.6);
  restart();
  auto_.recall(measured);
  EXPECT_LT(run(1000, kLong, 1.0, 0.6), without);
}

TEST_F(AutoStrategyTest, AWrongTableIsLeftSoon) {
  run(5000, kLong, 1.0, 1.5);
  const MeasuredArms measured = auto_.measured();
  restart();
  auto_.recall(measured);
  EXPECT_LT(run(5000, kLong, 1.0, 0.6), 600);
  EXPECT_FALSE(runs_a_view());
}

// If guesses are rejected, a view makes fewer.
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

// A learnt acceptance rate changes the predictions; the same effect must not also be attributed to
// longer or shorter rounds.
TEST_F(AutoStrategyTest, AcceptanceIsNotCountedTwice) {
  double measured[2] = {};
  for (const bool is_right : {false, true}) {
    restart();
    while (!runs_a_view()) run(1, kLong);
    const int32_t arm = auto_.arms().running();
    const int32_t guesses = plan()->draft_depth;
    const int32_t accepted = is_right ? guesses : 0;
    for (int32_t step = 1; auto_.arms().is_in_trial(); ++step) {
      if (step % (guesses + 1) == 0) auto_.observe(*plan(), guesses, accepted);
      run(1, kLong, 1.0, (accepted + 1.0) / (guesses + 1.0));
    }
    measured[is_right] = auto_.arms().rates().belief(arm, kLong).mean;
  }
  EXPECT_NEAR(measured[0], measured[1], 0.03);
}

// Runs a single request at a time, in virtual time: each has a text of its own, with its own
// acceptance of guesses of either origin. Rounds that guess take longer than the cost model
// predicts.
class SourceArms : public ::testing::Test {
 protected:
  // Expected and real seconds of a round, and its tokens.
  struct Text {
    // Expected tokens per round by sources without a model, in 1.25 plain Steps.
    double by_text = 1.0;
    double by_draft = 1.0;  // by the draft model and these sources, in 1.6
  };
  struct Seen {
    double tokens = 0.0;
    double seconds = 0.0;
    double plain_tokens = 0.0;  // tokens of plain decoding in the same time
    double best_tokens = 0.0;   // tokens of the best arm for each text
    int32_t changes = 0;
  };

  SourceArms() {
    StepCosts costs;
    for (const int32_t rows : {1, 64}) costs.add(Role::kTarget, {rows}, 1e-3);
    costs_.set(costs);
  }

  // Returns the tokens per second of an arm whose guesses cost `error` times the expected time.
  static double rate(const GuessSources& arm, const Text& text, double error) {
    double best = 1.0;
    if (arm.text && text.by_text > 1.25) best = text.by_text / (1.0 + 0.25 * error);
    if (arm.drafts && text.by_draft > 1.6) {
      best = std::max(best, text.by_draft / (1.0 + 0.6 * error));
    }
    return best / 1e-3;
  }

  // Runs `requests` requests of 200 rounds, with the texts in turn.
  Seen run(const std::vector<Text>& texts, double error, int32_t requests) {
    Seen seen;
    for (int32_t request = 0; request < requests; ++request) {
      const Text& text = texts[static_cast<size_t>(request) % texts.size()];
      for (int32_t round = 0; round < 200; ++round) step(text, error, seen);
    }
    return seen;
  }

  void step(const Text& text, double error, Seen& seen) {
    const GuessSources arm = auto_.sources();
    const bool drafts = arm.drafts && text.by_draft / 1.6 > std::max(1.0, text.by_text / 1.25);
    const bool guesses = arm.text && text.by_text > 1.25;
    const double expected = drafts ? text.by_draft : guesses ? text.by_text : 1.0;
    const double steps = drafts ? 1.6 : guesses ? 1.25 : 1.0;
    const double seconds = 1e-3 * (1.0 + (steps - 1.0) * error);
    // One token, and sometimes four more, to match the expectation on average.
    const double more = expected - 1.0;
    const double tokens = 1.0 + (uniform_(random_) < more / 4.0 ? 4.0 : 0.0);
    now_.tokens += static_cast<int64_t>(tokens);
    now_.seconds += seconds * noise_(random_);
    by_text_ += (std::max(1.0, text.by_text / 1.25) - by_text_) / 30.0;
    by_draft_ += (std::max({1.0, text.by_text / 1.25, text.by_draft / 1.6}) - by_draft_) / 30.0;
    now_.speedup_by_text = by_text_;
    now_.speedup_by_draft = by_draft_;
    now_.sequences = 1;
    auto_.look(costs_, {.sequences = 1, .context_tokens = 300}, now_);
    seen.changes += auto_.sources() != arm;
    seen.tokens += expected;
    seen.seconds += seconds;
    seen.plain_tokens += seconds * rate({.text = false, .drafts = false}, text, error);
    double best = 0.0;
    for (const GuessSources& each : kArms) best = std::max(best, rate(each, text, error));
    seen.best_tokens += seconds * best;
  }

  inline static const std::vector<GuessSources> kArms = {
      {}, {.drafts = false}, {.text = false}, {.text = false, .drafts = false}};
  static constexpr Text kProse = {.by_text = 1.3, .by_draft = 1.65};
  static constexpr Text kCode = {.by_text = 2.0, .by_draft = 3.2};
  static constexpr Text kNew = {.by_text = 1.0, .by_draft = 1.5};

  LiveCosts costs_;
  AutoStrategy auto_{kArms, {}, [](const SpeculationOptions& options) {
                       return resolve_speculation(options, kFacts);
                     }};
  AutoStrategy::Progress now_{.seconds = 1.0};
  double by_text_ = 1.0;
  double by_draft_ = 1.0;
  std::mt19937 random_{3};
  std::uniform_real_distribution<double> uniform_{0.0, 1.0};
  std::normal_distribution<double> noise_{1.0, 0.05};
};

TEST_F(SourceArms, GuessesThatCostMoreThanTheyBringAreLeft) {
  run({kProse}, 1.6, 20);  // learns
  const Seen seen = run({kProse}, 1.6, 200);
  EXPECT_GT(seen.tokens, 0.985 * seen.plain_tokens);
  EXPECT_LT(run({kProse}, 1.6, 20).changes, 100);
}

TEST_F(SourceArms, GuessesThatPayAreKept) {
  const Seen seen = run({kCode}, 1.2, 100);
  EXPECT_GT(seen.tokens, 0.97 * seen.best_tokens);
}

// The time of guesses is learnt from any text; each request shows its own acceptance.
TEST_F(SourceArms, EachTextGetsTheArmThatSuitsIt) {
  run({kProse, kCode, kNew}, 1.6, 30);
  const Seen seen = run({kProse, kCode, kNew}, 1.6, 300);
  EXPECT_GT(seen.tokens, 0.96 * seen.best_tokens);
  EXPECT_GT(seen.tokens, 1.2 * seen.plain_tokens);
}

TEST_F(SourceArms, WhatHasBecomeCheapIsFoundAgain) {
  run({kProse}, 2.0, 100);
  const Seen dear = run({kProse}, 2.0, 20);
  ASSERT_GT(dear.tokens, 0.98 * dear.plain_tokens);
  const Text good = {.by_text = 1.5, .by_draft = 1.7};
  run({good}, 0.9, 300);
  const Seen seen = run({good}, 0.9, 100);
  EXPECT_GT(seen.tokens, 0.97 * seen.best_tokens);
}

}  // namespace
}  // namespace forerun
