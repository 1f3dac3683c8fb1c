#include "kernels/attention/attention_plan_cuda.h"

#include <algorithm>

namespace forerun::cuda {
namespace {

constexpr int32_t kBlockTokens = kAttentionTile;

const AttentionRow& at(std::span<const AttentionRow> rows, int32_t index) {
  return rows[static_cast<size_t>(index)];
}

int32_t highest_slot(const AttentionRow& row) {
  int32_t highest = std::max(row.slot, row.boundary - 1);
  for (int32_t i = 0; i < row.position + 1 - row.boundary; ++i) {
    highest = std::max(highest, row.ancestors[i]);
  }
  return highest;
}

// Slot of a position that the row sees.
int32_t slot_of(const AttentionRow& row, int32_t position) {
  return position < row.boundary ? position : row.ancestors[position - row.boundary];
}

int32_t physical(const AttentionRow& row, int32_t slot) {
  return row.block_table[slot / kBlockTokens] * kBlockTokens + slot % kBlockTokens;
}

}  // namespace

void AttentionPlanCuda::add_group(std::span<const AttentionRow> from, int32_t begin, int32_t end,
                                  int32_t table, int32_t stable) {
  AttentionItemCuda item;
  item.first_row = begin;
  item.num_rows = end - begin;
  item.group = num_groups++;
  item.stable_tokens = stable;
  for (int32_t row_idx = begin; row_idx < end; ++row_idx) {
    const AttentionRow& row = at(from, row_idx);
    rows.push_back({.position = row.position,
                    .boundary = row.boundary,
                    .table = table,
                    .ancestors = static_cast<int32_t>(ancestors.size()),
                    .group = item.group});
    for (int32_t position = row.boundary; position <= row.position; ++position) {
      ancestors.push_back(physical(row, slot_of(row, position)));
    }
    item.prefix_tokens = std::max(item.prefix_tokens, row.boundary);
    item.end_tile = std::max(item.end_tile, row.position / kTilePositions + 1);
  }
  items.push_back(item);
}

void AttentionPlanCuda::build(std::span<const AttentionRow> from, int32_t kv_heads,
                              int32_t multiprocessors, int32_t most_partials, bool may_fuse) {
  rows.clear();
  items.clear();
  tables.clear();
  ancestors.clear();
  extras.clear();
  num_groups = 0;
  num_partials = 0;

  const auto count = static_cast<int32_t>(from.size());
  for (int32_t begin = 0; begin < count;) {
    // One sequence's rows share a table and the slots that this step does not touch.
    const int32_t* block_table = at(from, begin).block_table;
    int32_t end = begin;
    int32_t highest = 0;
    int32_t stable = at(from, begin).slot;
    for (; end < count && at(from, end).block_table == block_table; ++end) {
      highest = std::max(highest, highest_slot(at(from, end)));
      stable = std::min(stable, at(from, end).slot);
    }
    const auto table = static_cast<int32_t>(tables.size());
    tables.insert(tables.end(), block_table, block_table + highest / kBlockTokens + 1);
    while (begin < end) {
      const int32_t step = span_tiles(at(from, begin).position);
      int32_t group_end = begin;
      while (group_end < end && group_end - begin < kGroupRows &&
             span_tiles(at(from, group_end).position) == step) {
        ++group_end;
      }
      add_group(from, begin, group_end, table, stable);
      begin = group_end;
    }
  }

  int64_t partials = 0;
  int64_t tiles = 0;
  for (const AttentionRowCuda& row : rows) partials += num_spans(row.position);
  for (const AttentionItemCuda& item : items) tiles += item.end_tile;
  long_contexts = tiles * kv_heads >= 4 * multiprocessors;
  mode = AttentionMode::kWhole;
  if (num_groups * kv_heads >= 2 * multiprocessors || partials > most_partials) return;
  mode = may_fuse && fuse(from) ? AttentionMode::kFused : AttentionMode::kSplit;
  deal_out_spans();
}

bool AttentionPlanCuda::fuse(std::span<const AttentionRow> from) {
  // The slots that each group sees and that are not prefix of earlier steps, each once.
  for (const AttentionItemCuda& group : items) {
    slots_.clear();
    for (int32_t row_idx = group.first_row; row_idx < group.first_row + group.num_rows; ++row_idx) {
      const AttentionRow& row = at(from, row_idx);
      const int32_t first = std::min(row.boundary, group.stable_tokens);
      if (row.position + 1 - first > kMostExtras) return false;
      for (int32_t position = first; position <= row.position; ++position) {
        const int32_t slot = slot_of(row, position);
        if (std::find(slots_.begin(), slots_.end(), slot) == slots_.end()) slots_.push_back(slot);
      }
      if (static_cast<int32_t>(slots_.size()) > kMostExtras) return false;
    }
  }
  ancestors.clear();
  for (AttentionItemCuda& group : items) {
    slots_.clear();
    group.extras = static_cast<int32_t>(extras.size());
    group.prefix_tokens = 0;
    const int32_t* block_table = at(from, group.first_row).block_table;
    for (int32_t row_idx = group.first_row; row_idx < group.first_row + group.num_rows; ++row_idx) {
      const AttentionRow& row = at(from, row_idx);
      AttentionRowCuda& to = rows[static_cast<size_t>(row_idx)];
      to.boundary = std::min(row.boundary, group.stable_tokens);
      to.ancestors = static_cast<int32_t>(ancestors.size());
      group.prefix_tokens = std::max(group.prefix_tokens, to.boundary);
      for (int32_t position = to.boundary; position <= row.position; ++position) {
        const int32_t slot = slot_of(row, position);
        auto found = std::find(slots_.begin(), slots_.end(), slot);
        if (found == slots_.end()) {
          slots_.push_back(slot);
          found = slots_.end() - 1;
          const auto of_step = std::find_if(from.begin(), from.end(), [&](const AttentionRow& r) {
            return r.slot == slot && r.block_table == block_table;
          });
          extras.push_back(of_step == from.end() ? physical(row, slot)
                                                 : ~static_cast<int32_t>(of_step - from.begin()));
        }
        ancestors.push_back(static_cast<int32_t>(found - slots_.begin()));
      }
    }
    group.num_extras = static_cast<int32_t>(slots_.size());
  }
  return true;
}

void AttentionPlanCuda::deal_out_spans() {
  groups_.swap(items);
  items.clear();
  for (const AttentionItemCuda& group : groups_) {
    const auto first_row = static_cast<size_t>(group.first_row);
    const int32_t step = span_tiles(rows[first_row].position);
    int32_t first_extra = group.end_tile * kTilePositions;  // lowest position that is an extra
    for (size_t i = first_row; i < first_row + static_cast<size_t>(group.num_rows); ++i) {
      rows[i].group_items = (group.end_tile + step - 1) / step;
      rows[i].first_partial = num_partials;
      num_partials += num_spans(rows[i].position);
      first_extra = std::min(first_extra, rows[i].boundary);
    }
    for (int32_t tile = 0; tile < group.end_tile; tile += step) {
      AttentionItemCuda span = group;
      span.first_tile = tile;
      span.end_tile = std::min(group.end_tile, tile + step);
      span.appends = span.end_tile == group.end_tile ? 1 : 0;
      if (span.end_tile * kTilePositions <= first_extra) span.num_extras = 0;
      items.push_back(span);
    }
  }
}

}  // namespace forerun::cuda
