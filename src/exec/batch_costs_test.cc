#include "exec/batch_costs.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// A target's Step takes 1 ms and 0.2 ms a row, the draft's 0.3 ms and 0.01 ms a row.
class BatchCostsTest : public testing::Test {
 protected:
  BatchCostsTest() {
    StepCosts costs;
    // Ninth rows begin a tile.
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
  // A Step as all of its sequences report it.
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

TEST_F(BatchCostsTest, ADraftStepForOneIsPaidForAll) {
  BatchCosts costs(&live_, /*in_turn=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.38, 0.05);
  EXPECT_NEAR(costs.table().draft_alone, 8 * 0.31 / 0.38, 1e-3);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 1, 0.31e-3);
  EXPECT_NEAR(costs.table().draft_alone, 1.0, 1e-3);
  EXPECT_NEAR(draft_ms(costs), 8 * 0.31, 1e-6);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 4, 0.34e-3);
  EXPECT_NEAR(draft_ms(costs), 2 * 0.34, 1e-6);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 8, 0.38e-3);
  EXPECT_NEAR(draft_ms(costs), 0.38, 0.05);
}

TEST_F(BatchCostsTest, ARowOfOneAloneCostsWhatItAddsForAll) {
  BatchCosts costs(&live_, /*in_turn=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  const auto extra_ms = [&](int32_t rows) {
    const CostTable& table = costs.table();
    return 1e3 * (table.at(Role::kTarget, rows) - table.at(Role::kTarget, 1));
  };
  const double together = extra_ms(2);
  EXPECT_LT(together, 2.4);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kTarget, 8, 2.6e-3, 1);
  EXPECT_NEAR(extra_ms(2), 8 * 0.6, 1e-4);
  EXPECT_GT(extra_ms(3), extra_ms(2));
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kTarget, 8, 2.6e-3, 3);
  EXPECT_NEAR(extra_ms(2), together, 1e-4);
}

TEST_F(BatchCostsTest, DraftingTogetherIsTriedAgainForALittleOfTheTime) {
  BatchCosts costs(&live_, /*in_turn=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  double target = 0.0;
  double drafted = 0.0;
  int trials = 0;
  for (int idx = 0; idx < 20'000; ++idx) {
    step(costs, Role::kTarget, 8, 2.6e-3);
    target += 2.6e-3;
    // One request would draft at the price of drafting together, and at no higher one.
    bool tried = false;
    while (draft_ms(costs) < 0.5) {
      step(costs, Role::kDraft, 1, 0.31e-3);
      drafted += 0.31e-3;
      tried = true;
    }
    trials += tried ? 1 : 0;
  }
  EXPECT_GT(trials, 50);
  EXPECT_LT(drafted, 1.05 * BatchCosts::kTrialShare * target);
}

TEST_F(BatchCostsTest, ADraftWithDevicesOfItsOwnHoldsNobodyUp) {
  BatchCosts costs(&live_, /*in_turn=*/false);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  costs.refresh();
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 1, 0.31e-3);
  EXPECT_NEAR(draft_ms(costs), 0.38, 0.05);
}

TEST_F(BatchCostsTest, WhoWaitsForAPromptIsHeldUpToo) {
  BatchCosts costs(&live_, /*in_turn=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.admit();
  for (int idx = 0; idx < 2; ++idx) costs.join(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 4 * 0.32, 1e-4);
  EXPECT_NEAR(1e3 * costs.table().at(Role::kTarget, 2), 1.4 + 4 * 0.4, 1e-4);
  for (int idx = 0; idx < 6; ++idx) costs.retire();
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.32, 1e-4);
}

TEST_F(BatchCostsTest, AloneThereIsNothingToShare) {
  BatchCosts costs(&live_, /*in_turn=*/true);
  for (int idx = 0; idx < 8; ++idx) costs.join(100);
  for (int idx = 0; idx < 120; ++idx) step(costs, Role::kDraft, 1, 0.31e-3);
  for (int idx = 0; idx < 7; ++idx) costs.leave(100);
  costs.refresh();
  EXPECT_NEAR(draft_ms(costs), 0.31, 1e-6);
}

}  // namespace
}  // namespace forerun
