#include "exec/batch_costs.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "exec/step_scheduler.h"

namespace forerun {
namespace {

// A target Step takes 1 ms and 0.2 ms per row, a draft Step 0.3 ms and 0.01 ms per row.
class BatchCostsTest : public testing::Test {
 protected:
  BatchCostsTest() {
    StepCosts costs;
    // Every ninth row begins a new tile.
    costs.add(Role::kTarget, {8}, 1e-3 + 0.2e-3 * 8);
    costs.add(Role::kTarget, {9}, 1.4e-3 + 0.2e-3 * 9);
    for (const int32_t rows : {1, 1024}) {
      costs.add(Role::kTarget, {rows}, 1e-3 + 0.2e-3 * rows);
      costs.add(Role::kDraft, {rows}, 0.3e-3 + 0.01e-3 * rows);
    }
    live_.set(costs);
  }
  static double draft_ms(const BatchCosts& costs) {
    return 1e3 * costs.table().at(Role::kDraft, 1);
  }
  // Reports the results of one Step, from all of its sequences.
  static void step(BatchCosts& costs, Role role, int32_t sequences, double seconds,
                   size_t rows = 1) {
    WorkResult result;
    result.role = role;
    result.step_seconds = seconds;
    result.step_sequences = sequences;
    result.rows.resize(rows);
    for (int32_t idx = 0; idx < sequences; ++idx) costs.note_step(result);
    costs.refresh();
  }

  LiveCosts live_;
};

TEST_F(BatchCostsTest, ADraftStepIsPricedAsOneThatTheBatchShares) {
  BatchCosts costs(&live_, /*sequential=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.38, 1e-4);
  EXPECT_NEAR(costs.table().draft_alone, 8 * 0.31 / 0.38, 1e-3);
  EXPECT_TRUE(costs.table().drafts_together);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 1, 0.31e-3);
  EXPECT_NEAR(draft_ms(costs), 0.38, 1e-4) << "whoever shared the last ones";
}

// Plays a round of `drafted` draft Steps, after which the executor turns down the next Step of all
// requests.
void round_of(BatchCosts& costs, int32_t sequences, int32_t drafted) {
  const auto tell = [&](Role role, bool left_out) {
    WorkResult result;
    result.role = role;
    result.left_out = left_out;
    result.step_sequences = sequences;
    for (int32_t idx = 0; idx < sequences; ++idx) costs.note_step(result);
  };
  tell(Role::kTarget, false);
  for (int32_t idx = 0; idx < drafted; ++idx) tell(Role::kDraft, false);
  if (!costs.table().drafts_rest) tell(Role::kDraft, true);
  costs.refresh();
}

TEST_F(BatchCostsTest, WhereDraftingIsTurnedDownAllRestAndTryAgainTogether) {
  BatchCosts costs(&live_, /*sequential=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  for (int idx = 0; idx < 100; ++idx) {
    round_of(costs, 8, /*drafted=*/2);
    ASSERT_FALSE(costs.table().drafts_rest) << "only a deeper step was turned down";
  }
  // The rests last 16, 32, 64 and again 64 Steps.
  std::vector<int> rests;
  int resting = 0;
  for (int idx = 0; idx < 500; ++idx) {
    round_of(costs, 8, /*drafted=*/0);
    if (costs.table().drafts_rest) {
      ++resting;
    } else if (resting > 0) {
      rests.push_back(std::exchange(resting, 0));
    }
  }
  ASSERT_GE(rests.size(), 4u);
  EXPECT_EQ(std::vector<int>(rests.begin(), rests.begin() + 4), (std::vector<int>{16, 32, 64, 64}));
}

TEST_F(BatchCostsTest, ADraftWithDevicesOfItsOwnHoldsNobodyUp) {
  BatchCosts costs(&live_, /*sequential=*/false);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.38, 1e-4);
  EXPECT_FALSE(costs.table().drafts_together);
}

TEST_F(BatchCostsTest, WhoWaitsForAPromptIsHeldUpToo) {
  BatchCosts costs(&live_, /*sequential=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.admit();
  for (int idx = 0; idx < 2; ++idx) costs.join(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 4 * 0.32, 1e-4);
  EXPECT_NEAR(1e3 * costs.table().at(Role::kTarget, 2), 1.4 + 4 * 0.4, 1e-4);
  for (int idx = 0; idx < 6; ++idx) costs.retire();
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.32, 1e-4);
}

TEST_F(BatchCostsTest, StepsOfStagesLeaveRowsToPromptsThatWait) {
  for (const int32_t stages : {1, 4}) {
    StepCosts in_stages;
    live_.read([&](const StepCosts& costs) { in_stages = costs; });
    in_stages.set_stages({.count = stages});
    live_.set(in_stages);
    BatchCosts costs(&live_, /*sequential=*/false);
    for (int idx = 0; idx < 3; ++idx) costs.admit();
    for (int idx = 0; idx < 2; ++idx) costs.join(100);
    costs.refresh();
    EXPECT_EQ(costs.table().prompt_rows, stages > 1 ? StepScheduler::kMinPromptRows : 0);
    costs.join(100);
    costs.refresh();
    EXPECT_EQ(costs.table().prompt_rows, 0);
  }
}

TEST_F(BatchCostsTest, AloneThereIsNothingToShare) {
  BatchCosts costs(&live_, /*sequential=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  for (int idx = 0; idx < 7; ++idx) costs.leave(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.31, 1e-6);
  EXPECT_FALSE(costs.table().drafts_together);
}

}  // namespace
}  // namespace forerun
