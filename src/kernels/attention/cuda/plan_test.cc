#include "kernels/attention/cuda/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace forerun::cuda {
namespace {

AttentionShapeCuda shape_of(int32_t kv_parts, bool may_fuse, int32_t max_partials = 1 << 16) {
  return {.kv_parts = kv_parts,
          .row_columns = 4,
          .max_partials = max_partials,
          .may_fuse = may_fuse,
          .may_tile = false,
          .may_cluster = false};
}

AttentionRow prefix_row(int32_t position, const int32_t* table) {
  return {
      .last_visible = position, .boundary = position + 1, .slot = position, .block_table = table};
}

// Checks that every visible tile of a row belongs to exactly one item of its query tile.
void expect_covered(const AttentionPlanCuda& plan) {
  for (size_t row_idx = 0; row_idx < plan.rows.size(); ++row_idx) {
    const AttentionRowCuda& row = plan.rows[row_idx];
    std::multiset<int32_t> tiles;
    int32_t items = 0;
    const bool whole =
        plan.kernel == AttentionKernel::kPrefill || prefill_cluster_blocks(plan.kernel) > 0;
    for (const AttentionItemCuda& item : whole ? plan.prompt_items : plan.items) {
      const auto index = static_cast<int32_t>(row_idx);
      if (index < item.first_row || index >= item.first_row + item.num_rows) continue;
      EXPECT_EQ(item.query_tile, row.query_tile);
      ++items;
      for (int32_t tile = item.first_tile; tile < item.end_tile; ++tile) tiles.insert(tile);
      // An item begins where a span of its rows begins.
      EXPECT_TRUE(item.first_tile == 0 || item.first_tile * kTilePositions > row.last_visible ||
                  ends_span(row.last_visible, item.first_tile - 1));
    }
    for (int32_t tile = 0; tile <= row.last_visible / kTilePositions; ++tile) {
      EXPECT_EQ(tiles.count(tile), 1u) << "row " << row_idx << ", tile " << tile;
    }
    if (plan.kernel != AttentionKernel::kUnsplitKv && !whole) {
      EXPECT_EQ(items, row.query_tile_items);
    }
  }
}

TEST(AttentionPlanCuda, SpansOfFewRowsAreDealtOut) {
  const std::vector<int32_t> table(100, 3);
  AttentionPlanCuda plan;
  for (const int32_t position : {0, 63, 64, 1000, 4095, 4096, 6000}) {
    plan.build(std::vector{prefix_row(position, table.data())}, shape_of(8, false));
    EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKv);
    EXPECT_EQ(plan.num_query_tiles, 1);
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
  plan.build(rows, shape_of(8, false));
  EXPECT_EQ(plan.kernel, AttentionKernel::kUnsplitKv);
  EXPECT_EQ(plan.items.size(), 38u);
  expect_covered(plan);
  plan.build(std::span(rows).subspan(0, 20), shape_of(8, false, /*max_partials=*/3));
  EXPECT_EQ(plan.kernel, AttentionKernel::kUnsplitKv);
}

TEST(AttentionPlanCuda, GroupsHoldOneSequenceAndOneLengthOfSpans) {
  const std::vector<int32_t> first(300, 3), second(100, 4);
  std::vector<AttentionRow> rows;
  for (int32_t position = 16378; position < 16388; ++position) {
    rows.push_back(prefix_row(position, first.data()));
  }
  rows.push_back(prefix_row(10, second.data()));
  AttentionPlanCuda plan;
  plan.build(rows, shape_of(2, false));
  expect_covered(plan);
  EXPECT_EQ(plan.num_query_tiles, 3);  // 16378 .. 16383, 16384 .. 16387, the other sequence
  std::map<int32_t, int32_t> sizes;
  std::set<std::pair<int32_t, int32_t>> partials;
  for (const AttentionRowCuda& row : plan.rows) {
    ++sizes[row.query_tile];
    for (int32_t span = 0; span < num_spans(row.last_visible); ++span) {
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
  const AttentionRow row = {.last_visible = 72,
                            .boundary = 70,
                            .slot = 130,
                            .block_table = table.data(),
                            .ancestors = ancestors.data()};
  AttentionPlanCuda plan;
  plan.build(std::vector{row}, shape_of(1, false));
  // Position 70 lies in slot 70, so it counts as prefix.
  EXPECT_EQ(plan.rows[0].boundary, 71);
  EXPECT_EQ(plan.ancestors, (std::vector<int32_t>{5 * 64 + 8, 9 * 64 + 2}));
  EXPECT_EQ(plan.tables, table);
  EXPECT_EQ(plan.items[0].stable_tokens, 130);
  EXPECT_EQ(plan.items[0].prefix_tokens, 71);
}

// This is the verification of a tree, with one node that an earlier step has processed.
TEST(AttentionPlanCuda, FusedGroupsListTheKeysPastThePrefix) {
  const std::vector<int32_t> table = {7, 5};
  const std::vector<int32_t> first = {70, 71}, second = {70, 72}, third = {70, 72, 73};
  const auto row = [&](int32_t position, int32_t slot, const std::vector<int32_t>& ancestors) {
    return AttentionRow{.last_visible = position,
                        .boundary = 70,
                        .slot = slot,
                        .block_table = table.data(),
                        .ancestors = ancestors.data()};
  };
  const std::vector<AttentionRow> rows = {row(71, 71, first), row(71, 72, second),
                                          row(72, 73, third)};
  AttentionPlanCuda plan;
  plan.build(rows, shape_of(1, true));
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  expect_covered(plan);
  // Slot 70 lies in the cache; the others are this step's rows.
  EXPECT_EQ(plan.extras, (std::vector<int32_t>{~0, ~1, ~2, 5 * 64 + 6}));
  EXPECT_EQ(plan.ancestors, (std::vector<int32_t>{3, 0, 3, 1, 3, 1, 2}));
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
  plan.build(rows, shape_of(1, true));
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  expect_covered(plan);
  EXPECT_EQ(plan.rows[19].boundary, 100);
  EXPECT_EQ(plan.items.back().num_extras, 20);
  for (int32_t position = 120; position < 180; ++position) {
    rows.push_back(prefix_row(position, table.data()));
  }
  plan.build(rows, shape_of(1, true));
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKv);
  expect_covered(plan);
}

TEST(AttentionPlanCuda, RowsThatSeeOnlyTheirPrefixComeInLargeGroups) {
  const std::vector<int32_t> table(100, 3);
  std::vector<AttentionRow> rows;
  for (int32_t position = 1000; position < 1300; ++position) {
    rows.push_back(prefix_row(position, table.data()));
  }
  AttentionShapeCuda shape = shape_of(8, false);
  shape.may_tile = true;
  AttentionPlanCuda plan;
  plan.build(rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefill);
  expect_covered(plan);
  for (const AttentionItemCuda& item : plan.prompt_items) {
    EXPECT_LE(item.num_rows * shape.row_columns, kPrefillColumns);
    const AttentionRowCuda& first = plan.rows[static_cast<size_t>(item.first_row)];
    EXPECT_EQ(item.lowest, first.last_visible);
    for (int32_t i = 0; i < item.num_rows; ++i) {
      const int32_t position = plan.rows[static_cast<size_t>(item.first_row + i)].last_visible;
      EXPECT_EQ(span_tiles(position), span_tiles(first.last_visible));
      // All their spans are equal.
      if (position >= 1024) {
        EXPECT_EQ(position / kTilePositions, first.last_visible / kTilePositions);
      }
    }
  }
  // A chain through a list is a prefix too; another row of a tree is not.
  std::vector<int32_t> ancestors = {1298, 1299};
  rows.back().boundary = 1298;
  rows.back().ancestors = ancestors.data();
  plan.build(rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefill);
  ancestors = {1300, 1299};
  plan.build(rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPersistent);
  shape.max_partials = 0;
  plan.build(rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kUnsplitKv);
}

// 64 rows of a quarter of 70B make 10 items of a prompt: 17 tiles are partitioned, 5 tiles are not.
TEST(AttentionPlanCuda, FewItemsOfManyTilesAreDealtOut) {
  const std::vector<int32_t> table(100, 3);
  AttentionShapeCuda shape = shape_of(/*kv_parts=*/2, /*may_fuse=*/true);
  shape.row_columns = 8;
  shape.may_tile = true;
  AttentionPlanCuda plan;
  for (const auto& [first, kernel] :
       {std::pair{1000, AttentionKernel::kSplitKvFusedRope}, {200, AttentionKernel::kPrefill}}) {
    std::vector<AttentionRow> rows;
    for (int32_t position = first; position < first + 64; ++position) {
      rows.push_back(prefix_row(position, table.data()));
    }
    plan.build(rows, shape);
    EXPECT_EQ(plan.kernel, kernel) << first;
    if (kernel == AttentionKernel::kPrefill) expect_covered(plan);
  }
}

TEST(AttentionPlanCuda, SpansThatAllRowsShareAreTakenOutOfTheItems) {
  const std::vector<int32_t> table(600, 3);
  const std::vector<int32_t> ancestors = {32000, 32001, 32002, 32003, 32004, 32005,
                                          32006, 32007, 32008, 32009, 32010, 32011};
  std::vector<AttentionRow> rows;
  for (int32_t i = 0; i < 12; ++i) {
    rows.push_back({.last_visible = 32000 + i,
                    .boundary = 32000,
                    .slot = 32000 + i,
                    .block_table = table.data(),
                    .ancestors = ancestors.data()});
  }
  AttentionShapeCuda shape = shape_of(2, true);
  shape.may_tile = true;
  AttentionPlanCuda plan;
  plan.build(rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  EXPECT_EQ(plan.shared_prefix, SharedPrefix::kNarrow);
  // 500 tiles make 62 spans of 8, one of 3, then single tiles; the last is the tree's. Both query
  // tiles share them.
  ASSERT_EQ(plan.prefix_items.size(), 64u);
  for (const AttentionItemCuda& item : plan.prefix_items) {
    EXPECT_EQ(item.num_rows, 12);
    EXPECT_EQ(span_of(32000, item.first_tile), span_of(32000, item.end_tile - 1));
  }
  EXPECT_EQ(plan.prefix_items[62].end_tile, 499);
  EXPECT_EQ(plan.prefix_items[63].end_tile, 500);
  ASSERT_EQ(plan.items.size(), 2u);
  for (const AttentionItemCuda& item : plan.items) EXPECT_EQ(item.first_tile, 500);
  // There are two arrivals per prefix item, and one of the other item.
  for (const AttentionRowCuda& row : plan.rows) EXPECT_EQ(row.query_tile_items, 2 * 64 + 1);
}

// An item takes as many query tiles as fit into 128 columns or 32 rows.
TEST(AttentionPlanCuda, ManyGroupsJoinPrefixItems) {
  const std::vector<int32_t> table(600, 3), other(600, 4);
  std::vector<AttentionRow> rows;
  std::vector<std::vector<int32_t>> ancestors;
  const auto add = [&](const std::vector<int32_t>& of, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      ancestors.push_back({20000 + i});
      rows.push_back(
          {.last_visible = 20000, .boundary = 20000, .slot = 20000 + i, .block_table = of.data()});
    }
  };
  add(table, 44);
  add(other, 12);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].ancestors = ancestors[i].data();
  AttentionShapeCuda shape = shape_of(2, true);
  shape.may_tile = true;
  AttentionPlanCuda plan;
  for (const auto& [columns, sizes] : std::map<int32_t, std::set<int32_t>>{
           {1, {32, 12}}, {4, {32, 12}}, {5, {24, 20, 12}}, {8, {16, 12}}}) {
    shape.row_columns = columns;
    plan.build(rows, shape);
    ASSERT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
    ASSERT_EQ(plan.shared_prefix, columns == 1 ? SharedPrefix::kNarrow : SharedPrefix::kWide);
    std::set<int32_t> found;
    std::map<int32_t, int32_t> arrivals;  // arrivals of each query tile
    for (const AttentionItemCuda& item : plan.prefix_items) {
      found.insert(item.num_rows);
      EXPECT_LE(item.num_rows * columns, kPrefillColumns);
      for (int32_t i = 0; i < item.num_rows; ++i) {
        const AttentionRowCuda& row = plan.rows[static_cast<size_t>(item.first_row + i)];
        EXPECT_EQ(row.query_tile, item.query_tile + i / kQueryTileRows);
        if (i % kQueryTileRows == 0) arrivals[row.query_tile] += 2;
      }
    }
    for (const AttentionItemCuda& item : plan.items) ++arrivals[item.query_tile];
    EXPECT_EQ(found, sizes) << columns;
    for (const AttentionRowCuda& row : plan.rows)
      EXPECT_EQ(row.query_tile_items, arrivals[row.query_tile]);
  }
}

TEST(AttentionPlanCuda, ShortContextsGoToClusters) {
  const std::vector<int32_t> table(100, 3);
  AttentionShapeCuda shape = shape_of(2, true);
  shape.may_cluster = true;
  AttentionPlanCuda plan;
  const auto build = [&](int32_t context, int32_t count) {
    std::vector<AttentionRow> rows;
    for (int32_t i = 0; i < count; ++i) rows.push_back(prefix_row(context + i, table.data()));
    plan.build(rows, shape);
  };
  build(1000, 8);
  EXPECT_EQ(plan.kernel, AttentionKernel::kDecodeCluster);
  EXPECT_EQ(plan.items.size(), 4u);  // 7 would do, but query tiles are powers of two
  for (const AttentionItemCuda& item : plan.items) {
    EXPECT_EQ(item.num_rows, 2);
    EXPECT_EQ(item.shared_tiles, 15);
    EXPECT_EQ(item.end_tile, 16);
    EXPECT_EQ(item.row_spans, 32);
    EXPECT_EQ(item.num_extras, 2 * (item.first_row / 2 + 1));
  }
  build(2000, 1);
  EXPECT_EQ(plan.kernel, AttentionKernel::kDecodeCluster);
  EXPECT_EQ(plan.items[0].row_spans, num_spans(2000));
  build(kMaxDecodeClusterTokens - 1, 1);
  EXPECT_EQ(plan.kernel, AttentionKernel::kDecodeCluster);
  build(kMaxDecodeClusterTokens, 1);
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  build(1000, 40);  // more extras than fit
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  // There are up to two clusters per SM.
  shape.kv_parts = 8;
  build(1000, 16);
  EXPECT_EQ(plan.kernel, AttentionKernel::kDecodeCluster);
  EXPECT_EQ(plan.items.size(), 2u);
  // Clusters have more rows if those with fewer would not all be resident; there are no clusters if
  // even these would not.
  shape.kv_parts = 16;
  build(1000, 25);
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  shape.kv_parts = 8;
  shape.row_columns = 4;
  build(960, 24);
  EXPECT_EQ(plan.kernel, AttentionKernel::kDecodeCluster);
  for (const AttentionItemCuda& item : plan.items) EXPECT_EQ(item.num_rows, 8);
  for (const int32_t context : {960, 1000}) {
    build(context, 32);
    EXPECT_EQ(plan.kernel, AttentionKernel::kWideDecodeCluster);
    ASSERT_EQ(plan.items.size(), 3u);
    EXPECT_EQ(plan.items[0].num_rows, 12);
    EXPECT_EQ(plan.items[2].num_rows, 8);
  }
}

TEST(AttentionPlanCuda, FewRowsOfPromptsGoToPrefillClusters) {
  const std::vector<int32_t> table(200, 3);
  AttentionShapeCuda shape = shape_of(8, true);
  shape.may_tile = shape.may_cluster = true;
  AttentionPlanCuda plan;
  const auto build = [&](int32_t context, int32_t count) {
    std::vector<AttentionRow> rows;
    for (int32_t i = 0; i < count; ++i) rows.push_back(prefix_row(context + i, table.data()));
    plan.build(rows, shape);
    if (!plan.prompt_items.empty()) expect_covered(plan);
  };
  // 24 rows have single tiles as spans, 40 have spans of two.
  build(1000, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster2FusedRope);
  ASSERT_EQ(plan.prompt_items.size(), 5u);
  const std::array<int32_t, 5> even = {12, 12, 14, 13, 13};
  for (size_t i = 0; i < even.size(); ++i) EXPECT_EQ(plan.prompt_items[i].num_rows, even[i]);
  EXPECT_TRUE(plan.items.empty());
  build(1024, 40);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4FusedRope);
  // The rows do not ascend: an item might attend to keys of a later item.
  std::vector<AttentionRow> swapped;
  for (int32_t i = 0; i < 40; ++i) swapped.push_back(prefix_row(1024 + i, table.data()));
  std::swap(swapped[3], swapped[30]);
  plan.build(swapped, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4);
  shape.may_fuse = false;
  build(1024, 40);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4);
  build(1000, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster2);
  // These are the key/value heads of a quarter of 70B.
  shape.kv_parts = 2;
  shape.row_columns = 8;
  build(1000, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4);
  ASSERT_EQ(plan.prompt_items.size(), 8u);
  for (const AttentionItemCuda& item : plan.prompt_items) EXPECT_EQ(item.num_rows, 8);
  // Clusters have eight blocks if that many fit, and if there are spans for all their warpgroups.
  shape.max_prefill_cluster_blocks = 8;
  build(1000, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4);
  build(1000, 48);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster8);
  shape.may_fuse = true;
  build(1000, 33);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster8FusedRope);
  build(448, 33);  // eight spans
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4FusedRope);
  build(480, 33);  // nine
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster8FusedRope);
  build(4010, 48);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster8FusedRope);
  // If partitioning gains more than clusters of four, the plan does not consider clusters of eight.
  build(3000, 33);
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  build(3000, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4FusedRope);
  shape.kv_parts = 3;  // five items each
  build(1024, 40);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster8FusedRope);
  shape.kv_parts = 4;
  build(1024, 32);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillCluster4FusedRope);
  shape.kv_parts = 2;
  shape.may_fuse = false;
  // The context is too short, there are too many rows, or they attend to different nodes.
  build(100, 40);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefill);
  shape.kv_parts = 8;
  build(1024, 64);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefill);
  shape.may_cluster = false;
  shape.kv_parts = 2;
  build(1000, 64);
  EXPECT_EQ(prefill_cluster_blocks(plan.kernel), 0);
}

// Prefill clusters take a prompt's rows from 17 on, if kDecodeCluster would have two blocks per SM,
// and from 24 on at contexts too long for kDecodeCluster, unless distributing tiles over idle SMs
// gains more.
TEST(AttentionPlanCuda, ChainsOf17To32RowsGoToPrefillClusters) {
  const std::vector<int32_t> table(200, 3), other(200, 4);
  AttentionShapeCuda shape = shape_of(8, true);
  shape.may_tile = shape.may_cluster = true;
  AttentionPlanCuda plan;
  std::vector<AttentionRow> rows;
  const auto build = [&](int32_t context, int32_t count) {
    rows.clear();
    for (int32_t i = 0; i < count; ++i) rows.push_back(prefix_row(context + i, table.data()));
    plan.build(rows, shape);
    return plan.kernel;
  };
  plan.build({}, shape);
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(build(1000, 16), AttentionKernel::kDecodeCluster);
  EXPECT_EQ(build(1000, 17), AttentionKernel::kPrefillCluster4FusedRope);
  EXPECT_EQ(build(3500, 17), AttentionKernel::kPrefillCluster4FusedRope);
  EXPECT_EQ(build(4000, 17), AttentionKernel::kSplitKvFusedRope);
  EXPECT_EQ(build(4000, 24), AttentionKernel::kPrefillCluster4FusedRope);
  EXPECT_EQ(build(12000, 24), AttentionKernel::kSplitKvFusedRope);
  for (const AttentionItemCuda& item : plan.items) EXPECT_LE(item.num_rows, kQueryTileRows);
  // There are too few tiles, so the plan is the same as without prefill clusters.
  EXPECT_TRUE(is_decode_cluster(build(100, 24)));
  for (const AttentionItemCuda& item : plan.items) EXPECT_LE(item.num_rows, kWideDecodeClusterRows);
  EXPECT_TRUE(plan.prompt_items.empty());
  // The rows descend.
  build(1000, 24);
  std::reverse(rows.begin(), rows.end());
  plan.build(rows, shape);
  EXPECT_TRUE(is_decode_cluster(plan.kernel));
  // The rows belong to two sequences, or to a tree.
  build(1000, 17);
  rows.back().block_table = other.data();
  plan.build(rows, shape);
  EXPECT_TRUE(is_decode_cluster(plan.kernel));
  build(1000, 17);
  const std::vector<int32_t> ancestors = {1000, 1002};
  rows[2] = {.last_visible = 1001,
             .boundary = 1000,
             .slot = 1002,
             .block_table = table.data(),
             .ancestors = ancestors.data()};
  plan.build(rows, shape);
  EXPECT_TRUE(is_decode_cluster(plan.kernel));
  // In a quarter of 70B there are so few clusters that each block gets its own SM.
  shape.kv_parts = 2;
  shape.row_columns = 8;
  EXPECT_EQ(build(1000, 24), AttentionKernel::kDecodeCluster);
  EXPECT_EQ(build(3500, 32), AttentionKernel::kPrefillCluster4FusedRope);
  EXPECT_EQ(build(3500, 33), AttentionKernel::kSplitKvFusedRope);
  EXPECT_EQ(build(1000, 32), AttentionKernel::kPrefillCluster4FusedRope);
  // If another kernel appends, prefill clusters start at 33 rows.
  shape.may_fuse = false;
  EXPECT_EQ(build(1000, 32), AttentionKernel::kSplitKv);
  EXPECT_EQ(build(1000, 33), AttentionKernel::kPrefillCluster4);
}

TEST(AttentionPlanCuda, EveryTileIsInOneSpanAndTheLastTwoAlone) {
  for (int32_t position = 0; position < 70000; position += 61) {
    const int32_t last = position / kTilePositions;
    int32_t spans = 0;
    for (int32_t tile = 0; tile <= last; ++tile) {
      EXPECT_EQ(span_of(position, tile), spans);
      if (ends_span(position, tile)) ++spans;
      EXPECT_TRUE(tile + 2 < last || ends_span(position, tile));
    }
    EXPECT_EQ(spans, num_spans(position));
    EXPECT_TRUE(position >= kMaxDecodeClusterTokens || spans <= kDecodeClusterSpans);
  }
}

}  // namespace
}  // namespace forerun::cuda
