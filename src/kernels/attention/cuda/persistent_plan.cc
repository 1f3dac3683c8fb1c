// Plans a pass over many sequences (kPersistent, kPrefillThenPersistent): the rows that share
// tiles, the tiles that rows process separately, and the places of partial results.
#include <algorithm>

#include "kernels/attention/cuda/plan.h"
#include "kernels/attention/cuda/plan_rows.h"

namespace forerun::cuda {
namespace {

// A prompt's item has at most this many tiles for one thread block if there are few items.
constexpr int32_t kLongTiles = 32;

}  // namespace

// Adds adjacent rows of one sequence as the rows of one unit or, with `prompt`, of one kPrefill
// item.
void AttentionPlanCuda::add_persistent_query_tile(std::span<const AttentionRow> from, int32_t begin,
                                                  int32_t end, int32_t table, int32_t stable,
                                                  bool prompt) {
  AttentionItemCuda item;
  item.first_row = begin;
  item.num_rows = end - begin;
  item.stable_tokens = stable;
  item.lowest = at(from, begin).last_visible;
  item.table = table;
  item.query_tile = prompt ? 0 : num_query_tiles;
  int32_t highest = 0;
  int32_t shared = INT32_MAX;  // tiles below the boundaries of rows with a tree
  PersistentQueryTileCuda run = {.cut_step = 1, .last_cut = INT32_MAX};
  for (int32_t row_idx = begin; row_idx < end; ++row_idx) {
    const AttentionRow& row = at(from, row_idx);
    const int32_t boundary = chain_end(row);
    rows.push_back({.last_visible = row.last_visible,
                    .boundary = boundary,
                    .table = table,
                    .ancestors = static_cast<int32_t>(ancestors.size()),
                    .query_tile = item.query_tile});
    for (int32_t position = boundary; position <= row.last_visible; ++position) {
      ancestors.push_back(physical(row, slot_of(row, position)));
    }
    highest = std::max(highest, row.last_visible);
    if (boundary <= row.last_visible) shared = std::min(shared, boundary / kTilePositions);
    item.lowest = std::min(item.lowest, row.last_visible);
    item.prefix_tokens = std::max(item.prefix_tokens, boundary);
    run.cut_step = std::max(run.cut_step, span_tiles(row.last_visible));
    run.last_cut = std::min(run.last_cut, first_single_tile(row.last_visible));
  }
  const int32_t end_tile = highest / kTilePositions + 1;
  item.end_tile = std::min(end_tile, shared);
  if (prompt) {
    prompt_items.push_back(item);
    return;
  }
  ++num_query_tiles;
  // Tiles that rows process separately must begin where a span of each row does.
  const auto is_span_end = [&](int32_t tile) {
    return std::all_of(from.begin() + begin, from.begin() + end, [&](const AttentionRow& row) {
      return row.last_visible < tile * kTilePositions || ends_span(row.last_visible, tile - 1);
    });
  };
  if (item.end_tile < end_tile) {
    while (item.end_tile > 0 && !is_span_end(item.end_tile)) --item.end_tile;
  }
  item.own_tiles = end_tile - item.end_tile;
  prefix_items.push_back(item);
  run.tiles = item.end_tile;
  run.last_cut = std::max(0, std::min(run.last_cut, run.tiles - 1) / run.cut_step * run.cut_step);
  persistent_query_tiles_.push_back(run);
  if (item.own_tiles == 0) return;
  for (int32_t first = begin; first < end; first += kQueryTileRows) {
    AttentionItemCuda own = item;
    own.first_row = first;
    own.num_rows = std::min(kQueryTileRows, end - first);
    own.first_tile = item.end_tile;
    own.end_tile = 0;
    own.prefix_tokens = 0;
    own.lowest = INT32_MAX;
    for (int32_t i = first; i < first + own.num_rows; ++i) {
      const AttentionRowCuda& row = rows[static_cast<size_t>(i)];
      own.end_tile = std::max(own.end_tile, row.last_visible / kTilePositions + 1);
      own.prefix_tokens = std::max(own.prefix_tokens, row.boundary);
      own.lowest = std::min(own.lowest, row.last_visible);
    }
    items.push_back(own);
  }
}

// Assigns places to the rows' partial results, and lists the units to merge.
void AttentionPlanCuda::place_partials(int32_t parts) {
  num_partials = 0;
  merges.clear();
  size_t own = 0;
  for (AttentionItemCuda& item : prefix_items) {
    int32_t total_tiles = item.end_tile;  // smallest number of total tiles among all parts
    bool is_split = false;
    bool has_partials = item.own_tiles > 0;
    const AttentionScheduleCuda::Unit* const group_units =
        schedule_.units.data() + static_cast<ptrdiff_t>(item.query_tile) * parts;
    for (int32_t part = 0; part < parts; ++part) {
      total_tiles = std::min(total_tiles, group_units[part].total_tiles);
      is_split = is_split || group_units[part].pieces > 1;
      has_partials = has_partials || group_units[part].handed_over || group_units[part].pieces > 1;
    }
    int32_t own_rows = 0;  // rows with their own tiles; each announces their end
    for (; own < items.size() && items[own].query_tile == item.query_tile; ++own) {
      items[own].is_split = is_split ? 1 : 0;
      for (int32_t i = items[own].first_row; i < items[own].first_row + items[own].num_rows; ++i) {
        const int32_t last = rows[static_cast<size_t>(i)].last_visible / kTilePositions;
        own_rows += last >= item.end_tile ? 1 : 0;
      }
    }
    item.is_split = is_split ? 1 : 0;
    // If the unit is not split, rows with their own tiles continue from the total.
    for (int32_t part = 0; is_split && part < parts; ++part) {
      if (own_rows == 0 && group_units[part].pieces <= 1) continue;
      merges.push_back({.query_tile = item.query_tile,
                        .part = part,
                        .total_tiles = group_units[part].total_tiles,
                        .arrivals = group_units[part].pieces + own_rows +
                                    (group_units[part].handed_over ? kHandedOver : 0)});
    }
    if (!has_partials) continue;
    for (int32_t i = item.first_row; i < item.first_row + item.num_rows; ++i) {
      AttentionRowCuda& row = rows[static_cast<size_t>(i)];
      const int32_t first = span_of_total(row.last_visible, total_tiles);
      row.first_partial = num_partials - first;
      num_partials += num_spans(row.last_visible) - first;
    }
  }
}

// Returns false, and changes nothing, if other kernels are better.
bool AttentionPlanCuda::try_persistent(std::span<const AttentionRow> from, bool few,
                                       const AttentionShapeCuda& shape) {
  struct Sequence {
    int32_t begin, end;
    bool is_prompt;
  };
  std::vector<Sequence> sequences;
  const int32_t query_tile_rows = kPersistentColumns / shape.row_columns;
  const int32_t prompt_rows = kPrefillColumns / 2 / shape.row_columns * 2;
  int32_t units = 0, prompts = 0, prompt_query_tiles = 0, longest = 0;
  const auto count = static_cast<int32_t>(from.size());
  for (int32_t begin = 0; begin < count;) {
    int32_t end = begin;
    bool is_prompt = true;
    int32_t highest = 0;
    for (; end < count && at(from, end).block_table == at(from, begin).block_table; ++end) {
      is_prompt = is_prompt && sees_prefix_only(at(from, end));
      highest = std::max(highest, at(from, end).last_visible);
    }
    is_prompt = is_prompt && end - begin > query_tile_rows;
    units += (end - begin + query_tile_rows - 1) / query_tile_rows * shape.kv_parts;
    if (is_prompt) {
      ++prompts;
      prompt_query_tiles += (end - begin + prompt_rows - 1) / prompt_rows;
      longest = std::max(longest, highest / kTilePositions + 1);
    }
    sequences.push_back({begin, end, is_prompt});
    begin = end;
  }
  if (prompts == static_cast<int32_t>(sequences.size())) return false;
  const bool worth = shape.min_persistent_units == 0 ||
                     (sequences.size() > 1 && units >= shape.min_persistent_units);
  if (few && !worth) return false;
  const bool tiles =
      prompts > 0 &&
      (longest <= kLongTiles || 2 * prompt_query_tiles * shape.kv_parts > shape.multiprocessors);
  clear();
  persistent_query_tiles_.clear();
  for (const Sequence& sequence : sequences) {
    const bool prompt = tiles && sequence.is_prompt;
    int32_t stable = 0;
    const int32_t table = add_table(from, sequence.begin, sequence.end, &stable);
    for (int32_t begin = sequence.begin; begin < sequence.end;) {
      const int32_t end = prompt ? query_tile_end(from, begin, sequence.end, prompt_rows, true)
                                 : std::min(begin + query_tile_rows, sequence.end);
      add_persistent_query_tile(from, begin, end, table, stable, prompt);
      begin = end;
    }
  }
  kernel =
      prompt_items.empty() ? AttentionKernel::kPersistent : AttentionKernel::kPrefillThenPersistent;
  int32_t max_rows = 0;
  for (const AttentionItemCuda& item : prefix_items) max_rows = std::max(max_rows, item.num_rows);
  for (const bool may_split : {true, false}) {
    schedule_.schedule(persistent_query_tiles_, shape.kv_parts,
                       kPersistentWorkers * shape.multiprocessors, max_rows * shape.row_columns,
                       may_split);
    place_partials(shape.kv_parts);
    if (num_partials <= shape.max_partials) {
      runs.swap(schedule_.runs);
      workers.swap(schedule_.workers);
      return true;
    }
  }
  make_query_tiles(from, kQueryTileRows, /*by_tile=*/false);
  return false;
}

}  // namespace forerun::cuda
