#include "kernels/attention/attention_plan_cuda.h"

#include <algorithm>

namespace forerun::cuda {
namespace {

constexpr int32_t kBlockTokens = kAttentionTile;

int32_t highest_slot(const AttentionRow& row) {
  int32_t highest = std::max(row.slot, row.boundary - 1);
  for (int32_t i = 0; i < row.position + 1 - row.boundary; ++i) {
    highest = std::max(highest, row.ancestors[i]);
  }
  return highest;
}

}  // namespace

void AttentionPlanCuda::build(std::span<const AttentionRow> from, int32_t kv_heads,
                              int32_t multiprocessors, int32_t most_partials) {
  rows.clear();
  items.clear();
  tables.clear();
  ancestors.clear();
  num_groups = 0;
  num_partials = 0;

  const auto count = static_cast<int32_t>(from.size());
  for (int32_t begin = 0; begin < count;) {
    // One sequence's rows share a table and the slots that this step does not touch.
    const int32_t* block_table = from[static_cast<size_t>(begin)].block_table;
    int32_t end = begin;
    int32_t highest = 0;
    int32_t stable = from[static_cast<size_t>(begin)].slot;
    for (; end < count && from[static_cast<size_t>(end)].block_table == block_table; ++end) {
      highest = std::max(highest, highest_slot(from[static_cast<size_t>(end)]));
      stable = std::min(stable, from[static_cast<size_t>(end)].slot);
    }
    const auto table = static_cast<int32_t>(tables.size());
    tables.insert(tables.end(), block_table, block_table + highest / kBlockTokens + 1);

    for (int32_t group_begin = begin; group_begin < end;) {
      const int32_t tiles_a_span = span_tiles(from[static_cast<size_t>(group_begin)].position);
      AttentionItemCuda item;
      item.first_row = group_begin;
      item.group = num_groups++;
      item.stable_tokens = stable;
      int32_t row_idx = group_begin;
      for (; row_idx < end && row_idx - group_begin < kGroupRows; ++row_idx) {
        const AttentionRow& row = from[static_cast<size_t>(row_idx)];
        if (span_tiles(row.position) != tiles_a_span) break;
        rows.push_back({.position = row.position,
                        .boundary = row.boundary,
                        .table = table,
                        .ancestors = static_cast<int32_t>(ancestors.size()),
                        .group = item.group});
        for (int32_t i = 0; i < row.position + 1 - row.boundary; ++i) {
          const int32_t slot = row.ancestors[i];
          ancestors.push_back(block_table[slot / kBlockTokens] * kBlockTokens +
                              slot % kBlockTokens);
        }
        item.prefix_tokens = std::max(item.prefix_tokens, row.boundary);
        item.end_tile = std::max(item.end_tile, row.position / kTilePositions + 1);
      }
      item.num_rows = row_idx - group_begin;
      items.push_back(item);
      group_begin = row_idx;
    }
    begin = end;
  }

  // Enough groups keep every block busy as they are; else their spans are dealt out.
  int64_t partials = 0;
  for (const AttentionRowCuda& row : rows) partials += num_spans(row.position);
  whole = num_groups * kv_heads >= 2 * multiprocessors || partials > most_partials;
  if (whole) return;
  groups_.swap(items);
  items.clear();
  for (const AttentionItemCuda& group : groups_) {
    const auto first_row = static_cast<size_t>(group.first_row);
    const int32_t step = span_tiles(rows[first_row].position);
    for (size_t i = first_row; i < first_row + static_cast<size_t>(group.num_rows); ++i) {
      rows[i].group_items = (group.end_tile + step - 1) / step;
      rows[i].first_partial = num_partials;
      num_partials += num_spans(rows[i].position);
    }
    for (int32_t tile = 0; tile < group.end_tile; tile += step) {
      AttentionItemCuda span = group;
      span.first_tile = tile;
      span.end_tile = std::min(group.end_tile, tile + step);
      items.push_back(span);
    }
  }
}

}  // namespace forerun::cuda
