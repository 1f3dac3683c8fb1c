// Partitions a plan's query tiles by spans, if one query tile per block would leave blocks idle; a
// span that all rows of several query tiles share may be one item for all of them.
#include <algorithm>

#include "kernels/attention/cuda/plan.h"

namespace forerun::cuda {

void AttentionPlanCuda::partition_kv() {
  query_tiles_.swap(items);
  items.clear();
  for (const AttentionItemCuda& query_tile : query_tiles_) {
    const auto first_row = static_cast<size_t>(query_tile.first_row);
    const auto end_row = first_row + static_cast<size_t>(query_tile.num_rows);
    const int32_t step = span_tiles(rows[first_row].last_visible);
    int32_t first_extra = query_tile.end_tile * kTilePositions;  // lowest extra position
    int32_t singles = 0;  // from this tile on every row's spans are single tiles
    for (size_t i = first_row; i < end_row; ++i) {
      rows[i].first_partial = num_partials;
      num_partials += num_spans(rows[i].last_visible);
      first_extra = std::min(first_extra, rows[i].boundary);
      singles = std::max(singles, first_single_tile(rows[i].last_visible));
    }
    int32_t query_tile_items = 0;
    for (int32_t tile = 0; tile < query_tile.end_tile;) {
      AttentionItemCuda span = query_tile;
      span.first_tile = tile;
      tile =
          std::min(query_tile.end_tile, tile < singles ? std::min(singles, tile + step) : tile + 1);
      span.end_tile = tile;
      span.appends = span.end_tile == query_tile.end_tile ? 1 : 0;
      if (span.end_tile * kTilePositions <= first_extra) span.num_extras = 0;
      items.push_back(span);
      ++query_tile_items;
    }
    for (size_t i = first_row; i < end_row; ++i) rows[i].query_tile_items = query_tile_items;
  }
}

// Turns items into prefix items if their tiles are one span of each of their rows and lie in the
// prefix of all. One prefix item serves as many adjacent query tiles as have the same spans and few
// columns.
void AttentionPlanCuda::partition_prefixes(int32_t row_columns) {
  const auto is_shared = [&](const AttentionItemCuda& item) {
    if (item.end_tile > item.shared_tiles) return false;
    for (int32_t i = item.first_row; i < item.first_row + item.num_rows; ++i) {
      const int32_t position = rows[static_cast<size_t>(i)].last_visible;
      if (span_of(position, item.first_tile) != span_of(position, item.end_tile - 1) ||
          !ends_span(position, item.end_tile - 1)) {
        return false;
      }
    }
    return true;
  };
  const int32_t max_rows = std::min(kPrefixRows, kPrefillColumns / 2 / row_columns * 2);
  query_tiles_.swap(items);
  items.clear();
  // Prefix items of a query tile; the next query tiles may join them, in the same order.
  size_t joined = 0;
  size_t end_joined = 0;
  size_t begin = 0;
  while (begin < query_tiles_.size()) {
    const int32_t query_tile = query_tiles_[begin].query_tile;
    const size_t first = prefix_items.size();
    int32_t shared = 0;
    size_t end = begin;
    for (; end < query_tiles_.size() && query_tiles_[end].query_tile == query_tile; ++end) {
      const AttentionItemCuda& item = query_tiles_[end];
      if (!is_shared(item)) {
        items.push_back(item);
        continue;
      }
      ++shared;
      const size_t index = joined + static_cast<size_t>(shared - 1);
      if (index < end_joined) {
        AttentionItemCuda& before = prefix_items[index];
        if (before.table == item.table && before.first_tile == item.first_tile &&
            before.end_tile == item.end_tile && before.num_rows % kQueryTileRows == 0 &&
            before.num_rows + item.num_rows <= max_rows &&
            before.first_row + before.num_rows == item.first_row) {
          before.num_rows += item.num_rows;
          before.lowest = std::min(before.lowest, item.lowest);
          continue;
        }
      }
      prefix_items.push_back(item);
    }
    // All items of a query tile have the same rows.
    const AttentionItemCuda& any = query_tiles_[begin];
    for (int32_t row = any.first_row; row < any.first_row + any.num_rows; ++row) {
      rows[static_cast<size_t>(row)].query_tile_items += shared;
    }
    if (prefix_items.size() > first) {
      joined = first;
      end_joined = prefix_items.size();
    }
    begin = end;
  }
  for (const AttentionItemCuda& item : prefix_items) {
    const bool is_wide = item.num_rows > kPrefillColumns / 2 / row_columns;
    if (is_wide || shared_prefix == SharedPrefix::kNone) {
      shared_prefix = is_wide ? SharedPrefix::kWide : SharedPrefix::kNarrow;
    }
  }
}

}  // namespace forerun::cuda
