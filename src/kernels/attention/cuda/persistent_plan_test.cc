// Tests plans of passes over many sequences: every tile is assigned once, in even shares, and
// totals are handed over in an order in which no worker waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/cuda/plan.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kWorkers = 264;
constexpr int32_t kColumns = 32;

struct Load {
  int64_t most = 0, all = 0, split = 0;
};

// Checks a schedule of `query_tiles`, and returns how even it is.
Load check(const AttentionScheduleCuda& schedule,
           std::span<const PersistentQueryTileCuda> query_tiles, int32_t parts) {
  Load load;
  struct Piece {
    int32_t begin, end, worker;
    AttentionRunCuda run;
    bool first, last;  // among those of its worker
  };
  std::map<int32_t, std::vector<Piece>> units;
  for (size_t worker = 0; worker < schedule.workers.size(); ++worker) {
    const AttentionWorkerCuda& worker_runs = schedule.workers[worker];
    int64_t tiles = 0;
    for (int32_t i = worker_runs.first_run; i < worker_runs.end_run; ++i) {
      const AttentionRunCuda& run = schedule.runs[static_cast<size_t>(i)];
      EXPECT_TRUE(run.num_units == 1 || run.end_tile == 0);
      for (int32_t unit = run.first_unit; unit < run.first_unit + run.num_units; ++unit) {
        const int32_t end =
            run.end_tile > 0 ? run.end_tile : query_tiles[static_cast<size_t>(unit / parts)].tiles;
        units[unit].push_back({run.first_tile, end, static_cast<int32_t>(worker), run,
                               i == worker_runs.first_run, i + 1 == worker_runs.end_run});
        tiles += end - run.first_tile;
        if (run.splits != 0) load.split += end - run.first_tile;
      }
    }
    load.most = std::max(load.most, tiles);
    load.all += tiles;
  }
  for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
    SCOPED_TRACE("unit " + std::to_string(unit));
    const PersistentQueryTileCuda& query_tile = query_tiles[unit / static_cast<size_t>(parts)];
    std::vector<Piece>& pieces = units[static_cast<int32_t>(unit)];
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    int32_t at = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      EXPECT_EQ(piece.begin, at);
      EXPECT_LT(piece.begin, piece.end);
      at = piece.end;
      if (piece.begin > 0) {
        EXPECT_EQ(piece.begin % query_tile.cut_step, 0);
        EXPECT_LE(piece.begin, query_tile.last_cut);
      }
      // A worker hands over in its first run and takes up in its last one, so no worker waits for a
      // waiting one.
      if (piece.run.hands_over != 0) {
        EXPECT_TRUE(piece.first);
        EXPECT_EQ(pieces.size(), 2u);
        EXPECT_EQ(pieces[1].run.takes_up, 1);
        EXPECT_NE(pieces[1].worker, piece.worker);
      }
      if (piece.run.takes_up != 0) {
        EXPECT_TRUE(piece.last);
        EXPECT_EQ(i, 1u);
      }
      EXPECT_EQ(piece.run.splits != 0, piece.run.takes_up == 0 && piece.begin > 0);
    }
    EXPECT_EQ(at, query_tile.tiles);
    const AttentionScheduleCuda::Unit& dealt_unit = schedule.units[unit];
    if (pieces.size() > 1 && pieces[1].run.splits != 0) {
      EXPECT_EQ(dealt_unit.pieces, static_cast<int32_t>(pieces.size()));
      EXPECT_EQ(dealt_unit.total_tiles, pieces[0].end);
      EXPECT_EQ(pieces[0].run.keeps, 1);
    } else {
      EXPECT_EQ(dealt_unit.handed_over, pieces.size() == 2);
      EXPECT_EQ(dealt_unit.total_tiles, query_tile.tiles);
    }
  }
  return load;
}

PersistentQueryTileCuda query_tile_at(int32_t position) {
  const int32_t step = span_tiles(position);
  return {.tiles = position / kTilePositions + 1,
          .cut_step = step,
          .last_cut = first_single_tile(position) / step * step};
}

TEST(AttentionScheduleCuda, SharesAreEvenWhateverTheLengths) {
  AttentionScheduleCuda schedule;
  for (const int32_t count : {1, 3, 8, 24, 33, 48, 128}) {
    for (const int32_t context : {60, 1000, 8000, 32000, 100000}) {
      for (const bool unequal : {false, true}) {
        SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(context));
        std::vector<PersistentQueryTileCuda> query_tiles;
        for (int32_t i = 0; i < count; ++i) {
          query_tiles.push_back(query_tile_at(unequal ? 1 + (i * 7919) % context : context));
        }
        schedule.schedule(query_tiles, 8, kWorkers, kColumns, /*may_split=*/true);
        const Load load = check(schedule, query_tiles, 8);
        int32_t step = 1;
        for (const PersistentQueryTileCuda& query_tile : query_tiles)
          step = std::max(step, query_tile.cut_step);
        // Shares are even except for the positions of span ends, the cost of a run, and units with
        // a worker of their own.
        const double share = static_cast<double>(load.all) / kWorkers;
        EXPECT_LE(static_cast<double>(load.most), 2.4 * share + step + 10);
        schedule.schedule(query_tiles, 8, kWorkers, 0, true);
        EXPECT_LE(static_cast<double>(check(schedule, query_tiles, 8).most),
                  (unequal || 8 * count > kWorkers / 2 ? 1.25 : 2.05) * share + step + 10);
      }
    }
  }
}

TEST(AttentionScheduleCuda, UnitsAreSplitNoMoreThanTheyMustBe) {
  AttentionScheduleCuda schedule;
  for (const int32_t count : {16, 24, 33, 48}) {
    const std::vector<PersistentQueryTileCuda> query_tiles(static_cast<size_t>(count),
                                                           query_tile_at(32000));
    schedule.schedule(query_tiles, 8, kWorkers, kColumns, true);
    const Load load = check(schedule, query_tiles, 8);
    EXPECT_EQ(load.split, 0) << count;
    // With up to 24 sequences each of 128 or 192 units has its own worker; if there are more units
    // than workers, some are handed over.
    if (count < 33) continue;
    EXPECT_LE(static_cast<double>(load.most), 1.03 * static_cast<double>(load.all) / kWorkers + 8);
  }
  const std::vector<PersistentQueryTileCuda> few(8, query_tile_at(32000));
  schedule.schedule(few, 8, kWorkers, kColumns, true);
  const Load load = check(schedule, few, 8);
  EXPECT_LE(static_cast<double>(load.split), 0.77 * static_cast<double>(load.all));
  EXPECT_GT(load.split, 0);
  schedule.schedule(few, 8, kWorkers, kColumns, false);
  EXPECT_EQ(check(schedule, few, 8).split, 0);
}

TEST(AttentionScheduleCuda, NothingIsDealtWhereThereIsNothing) {
  AttentionScheduleCuda schedule;
  schedule.schedule({}, 8, kWorkers, kColumns, true);
  EXPECT_TRUE(schedule.runs.empty());
  const std::vector<PersistentQueryTileCuda> empty(3);
  schedule.schedule(empty, 2, kWorkers, kColumns, true);
  EXPECT_TRUE(schedule.runs.empty());
  EXPECT_EQ(schedule.units.size(), 6u);
}

AttentionShapeCuda shape_of(int32_t max_partials = 1 << 20) {
  return {.kv_parts = 8, .row_columns = 4, .max_partials = max_partials, .may_fuse = true};
}

struct Batch {
  std::vector<std::vector<int32_t>> tables;
  std::vector<std::vector<int32_t>> ancestors;
  std::vector<AttentionRow> rows;

  Batch() {
    tables.reserve(400);
    ancestors.reserve(4000);
  }
  // Adds rows behind a context. `shift` is 0 for a chain; otherwise rows lie that much later.
  void add(int32_t context, int32_t count, int32_t shift) {
    std::vector<int32_t>& table = tables.emplace_back(context / kTilePositions + 8);
    std::vector<int32_t> path;
    for (int32_t i = 0; i < count; ++i) {
      path.push_back(context + shift + i);
      ancestors.push_back(path);
      rows.push_back({.last_visible = context + i,
                      .boundary = context,
                      .slot = path.back(),
                      .block_table = table.data(),
                      .ancestors = ancestors.back().data()});
    }
  }
  void add_prompt(int32_t context, int32_t count) {
    std::vector<int32_t>& table = tables.emplace_back((context + count) / kTilePositions + 1);
    for (int32_t i = 0; i < count; ++i) {
      rows.push_back({.last_visible = context + i,
                      .boundary = context + i + 1,
                      .slot = context + i,
                      .block_table = table.data()});
    }
  }
};

TEST(AttentionRunPlanCuda, ChainsArePrefixAndTreesAreTheirOwn) {
  Batch batch;
  for (int32_t i = 0; i < 40; ++i) batch.add(2000, 6, i % 2);
  AttentionPlanCuda plan;
  plan.build(batch.rows, shape_of());
  ASSERT_EQ(plan.kernel, AttentionKernel::kPersistent);
  ASSERT_EQ(plan.prefix_items.size(), 40u);
  EXPECT_EQ(plan.items.size(), 20u);
  for (const AttentionItemCuda& item : plan.prefix_items) {
    EXPECT_EQ(item.num_rows, 6);
    const bool tree = item.query_tile % 2 == 1;
    EXPECT_EQ(item.end_tile, tree ? 31 : 32);
    EXPECT_EQ(item.own_tiles, tree ? 1 : 0);
    EXPECT_EQ(item.prefix_tokens, tree ? 2000 : 2006);
  }
  for (const AttentionItemCuda& item : plan.items) {
    EXPECT_EQ(item.first_tile, 31);
    EXPECT_EQ(item.end_tile, 32);
    EXPECT_EQ(item.query_tile % 2, 1);
  }
  // Their rows continue from the totals, so there is nothing to merge.
  EXPECT_TRUE(plan.merges.empty());
  for (const AttentionItemCuda& item : plan.items) EXPECT_EQ(item.is_split, 0);
  // With few sequences units are split, and their partial results are merged.
  Batch few;
  for (int32_t i = 0; i < 8; ++i) few.add(8000, 6, i % 2);
  plan.build(few.rows, shape_of());
  ASSERT_EQ(plan.kernel, AttentionKernel::kPersistent);
  EXPECT_EQ(plan.merges.size(), 8u * 8);
  for (const AttentionMergeCuda& merge : plan.merges) {
    EXPECT_GE(merge.arrivals, merge.query_tile % 2 == 1 ? 2 + 6 : 2);
    EXPECT_LT(merge.arrivals, kHandedOver);
  }
  for (const AttentionItemCuda& item : plan.items) EXPECT_EQ(item.is_split, 1);
}

// Rows whose context crosses a tile's end within the step share all tiles, and cuts suit every row.
TEST(AttentionRunPlanCuda, RowsOfDifferentTilesShareTheirPrefix) {
  Batch batch;
  for (int32_t i = 0; i < 30; ++i) batch.add(16381, 6, 0);
  AttentionPlanCuda plan;
  plan.build(batch.rows, shape_of());
  ASSERT_EQ(plan.kernel, AttentionKernel::kPersistent);
  ASSERT_EQ(plan.prefix_items.size(), 30u);
  for (const AttentionRunCuda& run : plan.runs) {
    if (run.first_tile == 0) continue;
    for (const AttentionRow& row : batch.rows) {
      EXPECT_TRUE(ends_span(row.last_visible, run.first_tile - 1));
    }
  }
}

// Partial results of a row neither overlap those of others nor exceed the buffer.
TEST(AttentionRunPlanCuda, PartialResultsHaveTheirPlaces) {
  Batch batch;
  for (int32_t i = 0; i < 13; ++i) batch.add(500 + i * 1700, 1 + i % 8, i % 3);
  AttentionPlanCuda plan;
  plan.build(batch.rows, shape_of());
  ASSERT_EQ(plan.kernel, AttentionKernel::kPersistent);
  std::map<std::pair<int32_t, int32_t>, int32_t> places;  // partial result and part to row
  for (const AttentionMergeCuda& merge : plan.merges) {
    const AttentionItemCuda& item = plan.prefix_items[static_cast<size_t>(merge.query_tile)];
    for (int32_t i = item.first_row; i < item.first_row + item.num_rows; ++i) {
      const AttentionRowCuda& row = plan.rows[static_cast<size_t>(i)];
      for (int32_t span = span_of_total(row.last_visible, merge.total_tiles);
           span < num_spans(row.last_visible); ++span) {
        EXPECT_GE(row.first_partial + span, 0);
        EXPECT_LT(row.first_partial + span, plan.num_partials);
        EXPECT_TRUE(places.insert({{row.first_partial + span, merge.part}, i}).second);
      }
    }
  }
  EXPECT_FALSE(places.empty());
}

TEST(AttentionRunPlanCuda, PromptsGoByTiles) {
  Batch batch;
  batch.add_prompt(1000, 200);
  for (int32_t i = 0; i < 40; ++i) batch.add(2000, 6, 0);
  AttentionPlanCuda plan;
  plan.build(batch.rows, shape_of());
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefillThenPersistent);
  int32_t prompt_rows = 0;
  for (const AttentionItemCuda& item : plan.prompt_items) prompt_rows += item.num_rows;
  EXPECT_EQ(prompt_rows, 200);
  EXPECT_EQ(plan.prefix_items.size(), 40u);
  EXPECT_EQ(plan.prefix_items[0].first_row, 200);
  // A short piece of a long prompt would occupy a few SMs for long.
  Batch piece;
  piece.add_prompt(30000, 40);
  for (int32_t i = 0; i < 40; ++i) piece.add(2000, 6, 0);
  plan.build(piece.rows, shape_of());
  EXPECT_EQ(plan.kernel, AttentionKernel::kPersistent);
  // The same holds if there is no room for partial results.
  plan.build(batch.rows, shape_of(0));
  EXPECT_EQ(plan.kernel, AttentionKernel::kPrefill);
}

TEST(AttentionRunPlanCuda, FewUnitsAreForOtherModes) {
  Batch batch;
  batch.add(8000, 6, 0);
  batch.add(8000, 6, 0);
  AttentionPlanCuda plan;
  plan.build(batch.rows, shape_of());
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  AttentionShapeCuda shape = shape_of();
  shape.min_persistent_units = 0;
  plan.build(batch.rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kPersistent);
  shape.may_tile = false;
  plan.build(batch.rows, shape);
  EXPECT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
}

}  // namespace
}  // namespace forerun::cuda
