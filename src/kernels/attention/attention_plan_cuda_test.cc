#include "kernels/attention/attention_plan_cuda.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace forerun::cuda {
namespace {

constexpr int32_t kMultiprocessors = 132;
constexpr int32_t kMostPartials = 1 << 16;

AttentionRow prefix_row(int32_t position, const int32_t* table) {
  return {.position = position, .boundary = position + 1, .slot = position, .block_table = table};
}

// Every tile that a row sees belongs to exactly one item of its group.
void expect_covered(const AttentionPlanCuda& plan) {
  for (size_t row_idx = 0; row_idx < plan.rows.size(); ++row_idx) {
    const AttentionRowCuda& row = plan.rows[row_idx];
    std::multiset<int32_t> tiles;
    int32_t items = 0;
    for (const AttentionItemCuda& item : plan.items) {
      const auto index = static_cast<int32_t>(row_idx);
      if (index < item.first_row || index >= item.first_row + item.num_rows) continue;
      EXPECT_EQ(item.group, row.group);
      ++items;
      for (int32_t tile = item.first_tile; tile < item.end_tile; ++tile) tiles.insert(tile);
      // An item begins where a span of its rows begins.
      EXPECT_EQ(item.first_tile % span_tiles(row.position), 0);
    }
    for (int32_t tile = 0; tile <= row.position / kTilePositions; ++tile) {
      EXPECT_EQ(tiles.count(tile), 1u) << "row " << row_idx << ", tile " << tile;
    }
    if (plan.mode != AttentionMode::kWhole) {
      EXPECT_EQ(items, row.group_items);
    }
  }
}

TEST(AttentionPlanCuda, SpansOfFewRowsAreDealtOut) {
  const std::vector<int32_t> table(100, 3);
  AttentionPlanCuda plan;
  for (const int32_t position : {0, 63, 64, 1000, 4095, 4096, 6000}) {
    plan.build(std::vector{prefix_row(position, table.data())}, 8, kMultiprocessors, kMostPartials,
               false);
    EXPECT_EQ(plan.mode, AttentionMode::kSplit);
    EXPECT_EQ(plan.num_groups, 1);
    EXPECT_EQ(plan.num_partials, num_spans(position));
    EXPECT_EQ(plan.items.size(), static_cast<size_t>(num_spans(position)));
    expect_covered(plan);
  }
}

TEST(AttentionPlanCuda, ManyRowsAreWorkedOnWhole) {
  const std::vector<int32_t> table(100, 3);
  std::vector<AttentionRow> rows;
  for (int32_t position = 0; position < 300; ++position) {
    rows.push_back(prefix_row(position, table.data()));
  }
  AttentionPlanCuda plan;
  plan.build(rows, 8, kMultiprocessors, kMostPartials, false);
  EXPECT_EQ(plan.mode, AttentionMode::kWhole);
  EXPECT_EQ(plan.items.size(), 38u);
  expect_covered(plan);
  plan.build(std::span(rows).subspan(0, 20), 8, kMultiprocessors, /*most_partials=*/3, false);
  EXPECT_EQ(plan.mode, AttentionMode::kWhole);
}

TEST(AttentionPlanCuda, GroupsHoldOneSequenceAndOneLengthOfSpans) {
  const std::vector<int32_t> first(100, 3), second(100, 4);
  std::vector<AttentionRow> rows;
  for (int32_t position = 4090; position < 4100; ++position) {
    rows.push_back(prefix_row(position, first.data()));
  }
  rows.push_back(prefix_row(10, second.data()));
  AttentionPlanCuda plan;
  plan.build(rows, 2, kMultiprocessors, kMostPartials, false);
  expect_covered(plan);
  EXPECT_EQ(plan.num_groups, 3);  // 4090 .. 4095, 4096 .. 4099, the other sequence
  std::map<int32_t, int32_t> sizes;
  std::set<std::pair<int32_t, int32_t>> partials;
  for (const AttentionRowCuda& row : plan.rows) {
    ++sizes[row.group];
    for (int32_t span = 0; span < num_spans(row.position); ++span) {
      EXPECT_TRUE(partials.insert({row.first_partial + span, 0}).second);
    }
  }
  EXPECT_EQ(sizes, (std::map<int32_t, int32_t>{{0, 6}, {1, 4}, {2, 1}}));
  EXPECT_EQ(plan.tables[static_cast<size_t>(plan.rows[0].table)], 3);
  EXPECT_EQ(plan.tables[static_cast<size_t>(plan.rows[10].table)], 4);
}

TEST(AttentionPlanCuda, AncestorsBecomePhysicalSlots) {
  const std::vector<int32_t> table = {7, 5, 9};
  const std::vector<int32_t> ancestors = {70, 72, 130};
  const AttentionRow row = {.position = 72,
                            .boundary = 70,
                            .slot = 130,
                            .block_table = table.data(),
                            .ancestors = ancestors.data()};
  AttentionPlanCuda plan;
  plan.build(std::vector{row}, 1, kMultiprocessors, kMostPartials, false);
  EXPECT_EQ(plan.ancestors, (std::vector<int32_t>{5 * 64 + 6, 5 * 64 + 8, 9 * 64 + 2}));
  EXPECT_EQ(plan.tables, table);
  EXPECT_EQ(plan.items[0].stable_tokens, 130);
  EXPECT_EQ(plan.items[0].prefix_tokens, 70);
}

// A verification of a tree, one of whose nodes an earlier step has worked on.
TEST(AttentionPlanCuda, FusedGroupsListTheKeysPastThePrefix) {
  const std::vector<int32_t> table = {7, 5};
  const std::vector<int32_t> first = {70, 71}, second = {70, 72}, third = {70, 72, 73};
  const auto row = [&](int32_t position, int32_t slot, const std::vector<int32_t>& ancestors) {
    return AttentionRow{.position = position,
                        .boundary = 70,
                        .slot = slot,
                        .block_table = table.data(),
                        .ancestors = ancestors.data()};
  };
  const std::vector<AttentionRow> rows = {row(71, 71, first), row(71, 72, second),
                                          row(72, 73, third)};
  AttentionPlanCuda plan;
  plan.build(rows, 1, kMultiprocessors, kMostPartials, true);
  EXPECT_EQ(plan.mode, AttentionMode::kFused);
  expect_covered(plan);
  // Slot 70 lies in the cache; the others are this step's rows.
  EXPECT_EQ(plan.extras, (std::vector<int32_t>{5 * 64 + 6, ~0, ~1, ~2}));
  EXPECT_EQ(plan.ancestors, (std::vector<int32_t>{0, 1, 0, 2, 0, 2, 3}));
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].num_extras, 0);
  EXPECT_EQ(plan.items[1].num_extras, 4);
  EXPECT_FALSE(plan.items[0].appends);
  EXPECT_TRUE(plan.items[1].appends);
}

TEST(AttentionPlanCuda, PrefixRowsOfAStepAreExtrasWhereTheyAreFew) {
  const std::vector<int32_t> table(100, 3);
  std::vector<AttentionRow> rows;
  for (int32_t position = 100; position < 120; ++position) {
    rows.push_back(prefix_row(position, table.data()));
  }
  AttentionPlanCuda plan;
  plan.build(rows, 1, kMultiprocessors, kMostPartials, true);
  EXPECT_EQ(plan.mode, AttentionMode::kFused);
  expect_covered(plan);
  EXPECT_EQ(plan.rows[19].boundary, 100);
  EXPECT_EQ(plan.items.back().num_extras, 20);
  for (int32_t position = 120; position < 180; ++position) {
    rows.push_back(prefix_row(position, table.data()));
  }
  plan.build(rows, 1, kMultiprocessors, kMostPartials, true);
  EXPECT_EQ(plan.mode, AttentionMode::kSplit);
  expect_covered(plan);
}

}  // namespace
}  // namespace forerun::cuda
