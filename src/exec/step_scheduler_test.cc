#include "exec/step_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace forerun {
namespace {

// A target Step of r rows takes 10 + r ms, and a microsecond per visible token.
class StepSchedulerTest : public ::testing::Test {
 protected:
  StepSchedulerTest() {
    StepCosts costs;
    costs.add(Role::kTarget, {.rows = 1}, 11e-3);
    costs.add(Role::kTarget, {.rows = 101}, 111e-3);
    costs.set_slopes(Role::kTarget, {.per_attended_token = 1e-6});
    costs.add(Role::kDraft, {.rows = 1}, 1e-3);
    costs.add(Role::kDraft, {.rows = 101}, 11e-3);
    costs_.set(std::move(costs));
  }
  StepScheduler scheduler(Role role, double seconds = 0.0, int32_t rows = 512) const {
    return {role, {.rows = rows, .seconds = seconds}, &costs_};
  }

  // Returns the rows of a prompt alone behind `decoding`. `others_decode` says that eight sequences
  // of the other role decode.
  static int32_t rows_of(const StepScheduler& scheduler, const StepLoad& decoding, int32_t context,
                         int32_t left, bool others_decode = false, bool first = true) {
    const int64_t sequences =
        decoding.rows == 0 ? 0
                           : std::max<int64_t>(decoding.sequences, StepScheduler::kDecodingAPrompt);
    const double budget = scheduler.budget_seconds(
        decoding, 1,
        others_decode ? std::max<int64_t>(sequences, StepScheduler::kDecodingAPrompt) : sequences);
    return scheduler.prompt_rows(decoding, context, left, budget, first);
  }
  static constexpr StepLoad kNothing{.rows = 0, .sequences = 0};
  LiveCosts costs_;
};

TEST_F(StepSchedulerTest, FillsUpToTheBudgetOfTime) {
  const StepScheduler target = scheduler(Role::kTarget, 0.1);
  // 80 rows take 90 ms and 3.24 ms for attention; 96 rows take 106 ms.
  EXPECT_EQ(rows_of(target, kNothing, 0, 1000, false, true), 80);
  EXPECT_EQ(rows_of(target, even_load(20, 1, 0), 0, 1000, true, true), 64);
  // A longer context allows fewer rows: 48 rows behind 500 tokens take 58 + 25.2 ms.
  EXPECT_EQ(rows_of(target, kNothing, 500, 1000, false, true), 48);
  EXPECT_EQ(rows_of(target, kNothing, 0, 70, false, true), 70) << "all that is left";
}

TEST_F(StepSchedulerTest, ARowIsNearlyFreeWhileTheStepLastsLittleLonger) {
  const StepScheduler target = scheduler(Role::kTarget);
  EXPECT_EQ(target.nearly_free_rows(1), 2) << "12 ms for 11; 13 are more than 1.15 times as many";
  EXPECT_EQ(target.nearly_free_rows(100), 116) << "126 ms for 110";
  EXPECT_EQ(scheduler(Role::kTarget, 0.0, 104).nearly_free_rows(100), 104) << "all there are";
  const StepScheduler unmeasured(Role::kTarget, {.rows = 70}, nullptr);
  EXPECT_EQ(unmeasured.nearly_free_rows(1), 70);
}

TEST_F(StepSchedulerTest, AFullStepTakesSomeRowsOfOnePromptAndNoneOfOthers) {
  const StepScheduler target = scheduler(Role::kTarget, 0.02);
  const StepLoad full = even_load(30, 1, 0);
  EXPECT_EQ(rows_of(target, full, 0, 1000, true, true), StepScheduler::kMinPromptRows);
  EXPECT_EQ(rows_of(target, full, 0, 1000, true, false), 0);
  EXPECT_EQ(rows_of(target, full, 0, 5, true, false), 0);
  EXPECT_EQ(rows_of(target, full, 0, 5, true, true), 5);
}

TEST_F(StepSchedulerTest, ByDefaultAPromptStretchesADecodingStepByFourFifths) {
  const StepScheduler target = scheduler(Role::kTarget);
  // 90 decoding sequences take 100 ms: the prompt may add 80 ms, which is 80 rows less their
  // attention.
  const StepLoad decoding = even_load(90, 1, 0);
  EXPECT_EQ(rows_of(target, decoding, 0, 1000, true, true), 64);
  EXPECT_EQ(rows_of(target, decoding, 0, 64, true, true), 64);
  // Alone, the prompt may take a quarter of a second: 208 rows take 218 ms and 21.7 ms for
  // attention.
  EXPECT_EQ(rows_of(target, kNothing, 0, 1000, false, true), 208);
  // If a draft only reads prompts, its Step may take the time that a prompt may add to the
  // target's.
  EXPECT_EQ(rows_of(scheduler(Role::kDraft), kNothing, 0, 1000, true, true), 64);
}

// Rows that one prompt has taken leave the other prompts fewer rows, not more.
TEST_F(StepSchedulerTest, TheBudgetIsOfWhatDecodesHoweverManyPromptsFollow) {
  const StepScheduler target = scheduler(Role::kTarget);
  const double budget = target.budget_seconds(even_load(90, 1, 0), 11, 90);
  EXPECT_NEAR(budget, 0.18, 1e-9);
  EXPECT_EQ(target.prompt_rows(even_load(154, 1, 0), 0, 1000, budget, false), 0);
  EXPECT_EQ(target.prompt_rows(even_load(122, 1, 0), 0, 1000, budget, false), 32);
}

// Sixteen sequences decode in a Step of 26 ms. One or two prompts may add four fifths of that;
// three are a crowd, which goes first.
TEST_F(StepSchedulerTest, PromptsOfACrowdGoFirst) {
  const StepScheduler target = scheduler(Role::kTarget);
  const StepLoad load = even_load(16, 1, 0);
  EXPECT_NEAR(target.budget_seconds(load, 1, 16), 26e-3 + 20.8e-3, 1e-9);
  EXPECT_NEAR(target.budget_seconds(load, 2, 16), 26e-3 + 20.8e-3, 1e-9);
  EXPECT_EQ(target.budget_seconds(load, 3, 16), StepScheduler::kCrowdSeconds);
  EXPECT_EQ(target.budget_seconds(load, 100, 16), StepScheduler::kCrowdSeconds);
  // If the decoding rows alone take longer than that, prompts still get four fifths of their time.
  const StepLoad long_step = even_load(1000, 1, 0);
  EXPECT_NEAR(target.budget_seconds(long_step, 500, 1000), 1.8 * 1.01, 1e-9);
  EXPECT_EQ(scheduler(Role::kTarget, 0.1).budget_seconds(load, 100, 16), 0.1) << "as it was asked";
}

// Requests that wait for the other role before their next rows count too.
TEST_F(StepSchedulerTest, ThoseThatDecodeInTheNextStepAreHeldUpAsWell) {
  const StepScheduler target = scheduler(Role::kTarget);
  const StepLoad one_row = even_load(1, 1, 0);
  EXPECT_EQ(target.budget_seconds(one_row, 1, 1), StepScheduler::kCrowdSeconds);
  EXPECT_NEAR(target.budget_seconds(one_row, 1, 8), 11e-3 + 8.8e-3, 1e-9);
}

TEST_F(StepSchedulerTest, NeverTakesMoreRowsThanTheBudgetHas) {
  EXPECT_EQ(rows_of(scheduler(Role::kTarget, 100.0, 40), even_load(30, 1, 0), 0, 1000, true, true),
            10);
  EXPECT_EQ(rows_of(scheduler(Role::kTarget, 100.0, 40), even_load(40, 1, 0), 0, 1000, true, true),
            0);
  const StepScheduler unknown(Role::kTarget, {.rows = 40}, nullptr);
  EXPECT_EQ(rows_of(unknown, even_load(30, 1, 0), 0, 1000, true, true), 10);
}

// A draft Step takes 1 ms and 0.1 ms per further row; the target's Step of 16 rows takes 26 ms.
TEST_F(StepSchedulerTest, ADraftStepRunsWhereAllWhoOfferGainMoreThanAllLose) {
  const StepScheduler draft = scheduler(Role::kDraft);
  const auto taken = [&](float gain, size_t offers, int64_t held_up, const StepLoad& certain) {
    std::vector<DraftOffer> all(offers, {.gain = gain, .rows = 1, .context = 0});
    return draft.draft_items(certain, all, held_up);
  };
  // A draft Step of 16 rows costs each of the 16 requests log(1 + 2.5 / 26), 9.2%.
  EXPECT_EQ(taken(0.13f, 16, 16, kNothing), 16u);
  EXPECT_EQ(taken(0.05f, 16, 16, kNothing), 0u);
  EXPECT_EQ(taken(0.13f, 4, 16, kNothing), 0u) << "what four gain costs all";
  EXPECT_EQ(taken(0.9f, 4, 16, kNothing), 4u);
  EXPECT_EQ(taken(0.1f, 16, 16, kNothing), 0u) << "for next to nothing nobody begins";
  // Beside required rows, each item only has to pay for itself: 0.1 ms of 27 ms for all 16.
  EXPECT_EQ(taken(0.13f, 4, 16, even_load(1, 1, 0)), 4u);
  EXPECT_EQ(taken(0.03f, 4, 16, even_load(1, 1, 0)), 0u);
  EXPECT_EQ(taken(0.01f, 1, 1, kNothing), 1u) << "alone, it has chosen by the same costs";
}

TEST_F(StepSchedulerTest, OfADraftStepThoseWhoGainNothingAreLeftOut) {
  const StepScheduler draft = scheduler(Role::kDraft);
  const std::vector<DraftOffer> offers = {{.gain = 0.9f, .rows = 1, .context = 0},
                                          {.gain = 0.8f, .rows = 1, .context = 0},
                                          {.gain = 0.01f, .rows = 4, .context = 0}};
  EXPECT_EQ(draft.draft_items(kNothing, offers, 8), 2u);
}

TEST_F(StepSchedulerTest, WithoutCostsWhatIsOfferedRuns) {
  const LiveCosts nothing;
  const StepScheduler unknown(Role::kDraft, {}, &nothing);
  const std::vector<DraftOffer> offers(3, {.gain = 0.001f, .rows = 1, .context = 0});
  EXPECT_EQ(unknown.draft_items(kNothing, offers, 64), 3u);
}

}  // namespace
}  // namespace forerun
