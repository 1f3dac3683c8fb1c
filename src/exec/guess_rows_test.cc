#include "exec/guess_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace forerun {
namespace {

// Up to 32 rows take 1 ms, up to 64 rows 1.5 ms, and more rows 4 ms.
LiveCosts& stepped_costs() {
  static LiveCosts live;
  StepCosts costs;
  for (const auto& [rows, ms] : std::map<int32_t, double>{
           {1, 1.0}, {32, 1.0}, {33, 1.5}, {64, 1.5}, {65, 4.0}, {512, 4.0}}) {
    costs.add(Role::kTarget, {rows}, 1e-3 * ms);
  }
  live.set(costs);
  return live;
}

// Returns a chain of guesses; each is right with chance `each` if its parent is.
WorkItem chain(NodeId guesses, float each) {
  WorkItem item;
  float chance = 1.0f;
  for (NodeId node = 0; node <= guesses; ++node) {
    item.rows.push_back({.position = 10 + static_cast<int32_t>(node),
                         .node = node,
                         .parent = node == 0 ? kNoNode : node - 1,
                         .want = Want::kSample,
                         .chance = chance});
    chance *= each;
  }
  return item;
}

size_t leave_out(std::vector<WorkItem>& items, int64_t held_up = 0, int32_t max_rows = 512,
                 int32_t prompt_rows = 0) {
  GuessRows guesses;
  for (WorkItem& item : items) guesses.add(item, 10);
  const StepScheduler scheduler(Role::kTarget, {.rows = max_rows}, &stepped_costs());
  guesses.leave_out(scheduler, std::max<int64_t>(held_up, static_cast<int64_t>(items.size())),
                    prompt_rows);
  size_t rows = 0;
  for (const WorkItem& item : items) rows += item.rows.size();
  return rows;
}

TEST(GuessRows, FillWhatIsFreeAndStopBeforeTheNextTile) {
  std::vector<WorkItem> items(8, chain(7, 0.3f));
  EXPECT_EQ(leave_out(items), 32u);
  // Equal requests get equal shares; if the rows do not divide evenly, the first requests get one
  // row more.
  for (const WorkItem& item : items) EXPECT_EQ(item.rows.size(), 4u);
}

TEST(GuessRows, GoOverATilesEdgeWhereEnoughOfThemPay) {
  std::vector<WorkItem> likely(16, chain(7, 0.9f));
  EXPECT_EQ(leave_out(likely), 64u);
  std::vector<WorkItem> unlikely(16, chain(7, 0.4f));
  EXPECT_EQ(leave_out(unlikely), 32u);
}

TEST(GuessRows, OfOneAreNoReasonToHoldUpAllOthers) {
  std::vector<WorkItem> items(32, chain(0, 1.0f));
  items[7] = chain(7, 0.95f);
  EXPECT_EQ(leave_out(items), 32u);
  // The same must hold with other requests that wait.
  std::vector<WorkItem> few(12, chain(7, 0.9f));
  EXPECT_EQ(leave_out(few), 64u);
  few.assign(12, chain(7, 0.9f));
  EXPECT_EQ(leave_out(few, 60), 32u);
}

TEST(GuessRows, OfALoneRequestAreItsOwnChoice) {
  std::vector<WorkItem> items(1, chain(99, 0.5f));
  EXPECT_EQ(leave_out(items), 100u);
}

TEST(GuessRows, FitInAStep) {
  std::vector<WorkItem> items(4, chain(9, 0.9f));
  EXPECT_EQ(leave_out(items, 0, 20), 20u);
}

TEST(GuessRows, TakeNoRoomFromPrompts) {
  std::vector<WorkItem> items(4, chain(7, 0.3f));
  EXPECT_EQ(leave_out(items, 0, 512, 20), 12u);  // 32 rows with them
  items.assign(4, chain(7, 0.9f));
  EXPECT_EQ(leave_out(items, 0, 64, 60), 4u);
}

TEST(GuessRows, WithoutCostsAllAreRun) {
  std::vector<WorkItem> items(40, chain(9, 0.1f));
  GuessRows guesses;
  for (WorkItem& item : items) guesses.add(item, 10);
  guesses.leave_out(StepScheduler(Role::kTarget, {}, nullptr), 40, 0);
  for (const WorkItem& item : items) EXPECT_EQ(item.rows.size(), 10u);
}

// Whatever is left out, no child may stay without its parent, rows must keep their order, and
// required rows must stay.
TEST(GuessRows, LeaveTreesWhole) {
  std::mt19937 rng(1);
  const auto uniform = [&rng](size_t count) { return rng() % count; };
  size_t left_out = 0;
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<WorkItem> items(2 + uniform(30));
    size_t offered = 0;
    for (WorkItem& item : items) {
      item.rows.push_back({.node = 0, .want = Want::kSample});
      const size_t nodes = uniform(12);
      for (NodeId node = 1; node <= nodes; ++node) {
        const WorkRow parent = item.rows[uniform(node)];
        // Equal chances are frequent, because there are only a few kinds of guesses.
        item.rows.push_back({.node = node,
                             .parent = parent.node,
                             .want = Want::kSample,
                             .chance = parent.chance * 0.25f * static_cast<float>(1 + uniform(4))});
      }
      offered += item.rows.size();
    }
    left_out += offered - leave_out(items);
    for (const WorkItem& item : items) {
      ASSERT_FALSE(item.rows.empty());
      EXPECT_EQ(item.rows.front().node, 0);
      for (size_t row = 1; row < item.rows.size(); ++row) {
        EXPECT_LT(item.rows[row - 1].node, item.rows[row].node);
        EXPECT_TRUE(std::any_of(item.rows.begin(), item.rows.begin() + static_cast<long>(row),
                                [&](const WorkRow& r) { return r.node == item.rows[row].parent; }));
      }
    }
  }
  EXPECT_GT(left_out, 1000u);
}

}  // namespace
}  // namespace forerun
