#include "kernels/attention/cuda/plan.h"

#include <algorithm>

#include "kernels/attention/cuda/plan_rows.h"

namespace forerun::cuda {
namespace {

// More than kManyRows prefix rows take kPrefill or prefill clusters even if kSplitKv could
// partition them; more than kManyRowsOfOne rows of one sequence take prefill clusters, if the
// kernel also appends.
constexpr size_t kManyRows = 32;
constexpr size_t kManyRowsOfOne = 23;
// With up to this many rows the QKV layer leaves room beside it
// (LinearFootprint::kBesideAttention), so that clusters of one block per SM begin early.
constexpr size_t kRowsBesideAttention = 16;
// Returns the cost of distributing rows of a prompt over all SMs: the time of writing and reading
// partial results, in tiles that a warpgroup takes meanwhile. Measured on forward passes of 8B and
// a quarter of 70B with 33 to 64 rows and contexts of up to 16,000.
constexpr int32_t partition_cost_tiles(int32_t columns) {
  return std::max(2, (columns - 400) / 64);
}

// Returns whether rows take prefill clusters if kDecodeCluster has no room or the context is too
// long for it.
bool are_many(std::span<const AttentionRow> from, const AttentionShapeCuda& shape) {
  return from.size() > kManyRows || (from.size() > kManyRowsOfOne && shape.may_fuse &&
                                     are_of_one_sequence(from) && ascends(from));
}
// Returns whether these are up to 32 rows of a prompt, but more than clusters of one block per SM
// take: prefill clusters are faster than kDecodeCluster for them.
bool crowds_decode_clusters(std::span<const AttentionRow> from, const AttentionShapeCuda& shape) {
  return shape.may_tile && from.size() > kRowsBesideAttention && from.size() <= kManyRows &&
         static_cast<int32_t>(from.size()) * shape.kv_parts >
             kResidentClusters * decode_cluster_rows(shape.row_columns, /*wide=*/false) &&
         from.back().last_visible < kMaxDecodeClusterTokens && are_of_one_sequence(from) &&
         see_prefix_only(from) && ascends(from);
}

AttentionKernel prefill_cluster_kernel(int32_t blocks, bool fused) {
  switch (blocks) {
    case 2:
      return fused ? AttentionKernel::kPrefillCluster2FusedRope : AttentionKernel::kPrefillCluster2;
    case 4:
      return fused ? AttentionKernel::kPrefillCluster4FusedRope : AttentionKernel::kPrefillCluster4;
    default:
      return fused ? AttentionKernel::kPrefillCluster8FusedRope : AttentionKernel::kPrefillCluster8;
  }
}

int32_t highest_slot(const AttentionRow& row) {
  int32_t highest = std::max(row.slot, row.boundary - 1);
  for (int32_t i = 0; i < row.last_visible + 1 - row.boundary; ++i) {
    highest = std::max(highest, row.ancestors[i]);
  }
  return highest;
}

}  // namespace

void AttentionPlanCuda::clear() {
  rows.clear();
  items.clear();
  prefix_items.clear();
  prompt_items.clear();
  tables.clear();
  ancestors.clear();
  extras.clear();
  runs.clear();
  workers.clear();
  merges.clear();
  num_query_tiles = 0;
  num_partials = 0;
}

void AttentionPlanCuda::add_query_tile(std::span<const AttentionRow> from, int32_t begin,
                                       int32_t end, int32_t table, int32_t stable) {
  AttentionItemCuda item;
  item.first_row = begin;
  item.num_rows = end - begin;
  item.query_tile = num_query_tiles++;
  item.stable_tokens = stable;
  item.lowest = at(from, begin).last_visible;
  item.table = table;
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
    item.lowest = std::min(item.lowest, row.last_visible);
    item.prefix_tokens = std::max(item.prefix_tokens, boundary);
    item.end_tile = std::max(item.end_tile, row.last_visible / kTilePositions + 1);
  }
  items.push_back(item);
}

// Adds the block table of rows [begin, end), which belong to one sequence. This step writes no slot
// below `stable`.
int32_t AttentionPlanCuda::add_table(std::span<const AttentionRow> from, int32_t begin, int32_t end,
                                     int32_t* stable) {
  const auto table = static_cast<int32_t>(tables.size());
  const int32_t* const block_table = at(from, begin).block_table;
  int32_t highest = 0;
  *stable = at(from, begin).slot;
  for (int32_t i = begin; i < end; ++i) {
    highest = std::max(highest, highest_slot(at(from, i)));
    *stable = std::min(*stable, at(from, i).slot);
  }
  tables.insert(tables.end(), block_table, block_table + highest / kTilePositions + 1);
  return table;
}

void AttentionPlanCuda::make_query_tiles(std::span<const AttentionRow> from, int32_t max_rows,
                                         bool by_tile, bool even) {
  clear();
  const auto count = static_cast<int32_t>(from.size());
  for (int32_t begin = 0; begin < count;) {
    // One sequence's rows share a table and the slots that this step does not write.
    const int32_t* block_table = at(from, begin).block_table;
    int32_t end = begin;
    while (end < count && at(from, end).block_table == block_table) ++end;
    int32_t stable = 0;
    const int32_t table = add_table(from, begin, end, &stable);
    while (begin < end) {
      int32_t tile_rows = max_rows;
      if (even) {
        const int32_t together = query_tile_end(from, begin, end, end - begin, by_tile) - begin;
        const int32_t query_tiles = (together + max_rows - 1) / max_rows;
        tile_rows = (together + query_tiles - 1) / query_tiles;
      }
      const int32_t next = query_tile_end(from, begin, end, tile_rows, by_tile);
      add_query_tile(from, begin, next, table, stable);
      begin = next;
    }
  }
}

void AttentionPlanCuda::build(std::span<const AttentionRow> from, const AttentionShapeCuda& shape) {
  shared_prefix = SharedPrefix::kNone;
  if (shape.may_fuse && shape.may_cluster) {
    if (crowds_decode_clusters(from, shape) &&
        try_prefill_clusters(from, shape, /*or_partition=*/false))
      return;
    if (try_decode_clusters(from, shape)) return;
  }
  make_query_tiles(from, kQueryTileRows, /*by_tile=*/false);
  int64_t partials = 0;
  int64_t tiles = 0;
  for (const AttentionRowCuda& row : rows) partials += num_spans(row.last_visible);
  for (const AttentionItemCuda& item : items) tiles += item.end_tile;
  const bool few = num_query_tiles * shape.kv_parts < 2 * shape.multiprocessors &&
                   partials <= shape.max_partials;
  const bool prefix_only = see_prefix_only(from);
  if (shape.may_tile && try_persistent(from, few, shape)) return;
  if (shape.may_tile && shape.may_cluster && prefix_only && few && are_many(from, shape)) {
    if (try_prefill_clusters(from, shape, /*or_partition=*/true)) return;
    make_query_tiles(from, kQueryTileRows, /*by_tile=*/false);
  }
  if (shape.may_tile && prefix_only && (!few || from.size() > kManyRows)) {
    // Each of two warpgroups takes whole rows.
    make_query_tiles(from, kPrefillColumns / 2 / shape.row_columns * 2, /*by_tile=*/true);
    kernel = AttentionKernel::kPrefill;
    // An item of more tiles than there are items would keep its block busy while others idle. If
    // items take half of the SMs, distributing their tiles gains nothing.
    const int32_t num_items = num_query_tiles * shape.kv_parts;
    const bool is_long = std::any_of(
        items.begin(), items.end(),
        [num_items](const AttentionItemCuda& item) { return item.end_tile > num_items; });
    if (!few || !is_long || 2 * num_items > shape.multiprocessors) {
      prompt_items.swap(items);
      return;
    }
    make_query_tiles(from, kQueryTileRows, /*by_tile=*/false);
  }
  kernel = AttentionKernel::kUnsplitKv;
  if (!few) return;
  kernel = shape.may_fuse && fuse(from, kMaxExtras) ? AttentionKernel::kSplitKvFusedRope
                                                    : AttentionKernel::kSplitKv;
  for (AttentionItemCuda& item : items) {
    int32_t lowest_boundary = rows[static_cast<size_t>(item.first_row)].boundary;
    for (int32_t i = item.first_row; i < item.first_row + item.num_rows; ++i) {
      lowest_boundary = std::min(lowest_boundary, rows[static_cast<size_t>(i)].boundary);
    }
    item.shared_tiles = lowest_boundary / kTilePositions;
  }
  partition_kv();
  // If there is a tile for every second block, sharing tiles is worth another trip through the L2.
  if (shape.may_tile && 2 * tiles * shape.kv_parts > shape.multiprocessors) {
    partition_prefixes(shape.row_columns);
  }
}

// Makes query tiles of the smallest number of rows whose clusters are all resident at once, with
// one block per SM or else with two, if there is such a number.
bool AttentionPlanCuda::try_decode_clusters(std::span<const AttentionRow> from,
                                            const AttentionShapeCuda& shape) {
  for (const AttentionRow& row : from) {
    if (row.last_visible >= kMaxDecodeClusterTokens) return false;
  }
  const int32_t narrow_rows = decode_cluster_rows(shape.row_columns, /*wide=*/false);
  const int32_t wide_rows = decode_cluster_rows(shape.row_columns, /*wide=*/true);
  if (static_cast<int32_t>(from.size()) * shape.kv_parts > wide_rows * kMaxDecodeClusters)
    return false;
  for (int32_t query_tile_rows = 1;; query_tile_rows *= 2) {
    query_tile_rows = std::min(query_tile_rows, narrow_rows);
    make_query_tiles(from, query_tile_rows, /*by_tile=*/true);
    if (query_tile_rows == narrow_rows || num_query_tiles * shape.kv_parts <= kResidentClusters)
      break;
  }
  kernel = AttentionKernel::kDecodeCluster;
  if (num_query_tiles * shape.kv_parts > kMaxDecodeClusters) {
    kernel = AttentionKernel::kWideDecodeCluster;
    make_query_tiles(from, wide_rows, /*by_tile=*/true);
  }
  if (num_query_tiles * shape.kv_parts > kMaxDecodeClusters || !fuse(from, kDecodeClusterExtras))
    return false;
  for (AttentionItemCuda& item : items) {
    int32_t lowest_boundary = rows[static_cast<size_t>(item.first_row)].boundary;
    item.appends = 1;
    for (int32_t i = item.first_row; i < item.first_row + item.num_rows; ++i) {
      const AttentionRowCuda& row = rows[static_cast<size_t>(i)];
      lowest_boundary = std::min(lowest_boundary, row.boundary);
      item.row_spans += num_spans(row.last_visible);
    }
    item.shared_tiles = lowest_boundary / kTilePositions;
    // A tile that the rows do not share must be a span by itself, with its own block.
    if (item.shared_tiles < first_single_tile(item.lowest) && span_tiles(item.lowest) > 1) {
      return false;
    }
    if (item.end_tile - item.shared_tiles > kDecodeClusterBlocks) return false;
  }
  return true;
}

// Makes items of about equally many rows, since the largest determines the time, and clusters of as
// many blocks as are resident at once, if they are. With `or_partition` it does so only if
// partitioning the tiles of a long context, to use the SMs that clusters leave idle, would cost
// more than it gains. This is measured for clusters of up to four blocks; where the plan chooses
// eight, they are faster.
bool AttentionPlanCuda::try_prefill_clusters(std::span<const AttentionRow> from,
                                             const AttentionShapeCuda& shape, bool or_partition) {
  make_query_tiles(from, kPrefillClusterColumns / shape.row_columns, /*by_tile=*/true,
                   /*even=*/true);
  const int32_t num_items = num_query_tiles * shape.kv_parts;
  if (num_items > max_prefill_clusters(2)) return false;
  int32_t blocks = num_items > max_prefill_clusters(4) ? 2 : 4;
  const int32_t idle = std::max(shape.multiprocessors - num_items * blocks, 0);
  const int32_t partition_cost =
      partition_cost_tiles(static_cast<int32_t>(from.size()) * shape.row_columns * shape.kv_parts);
  bool many_spans = false;  // more spans than a cluster of four has warpgroups
  for (const AttentionItemCuda& item : items) {
    if (item.end_tile < kMinPrefillClusterTiles) return false;
    // The tiles of a warpgroup with clusters, less its tiles if all SMs took a share.
    const int64_t gained = int64_t{item.end_tile} * idle /
                           (prefill_cluster_warpgroups(blocks) * shape.multiprocessors);
    if (or_partition && gained > partition_cost) return false;
    const int32_t spans = num_spans((item.end_tile - 1) * kTilePositions);
    many_spans = many_spans || spans > prefill_cluster_warpgroups(4);
  }
  if (many_spans && shape.max_prefill_cluster_blocks >= 8 && num_items <= max_prefill_clusters(8)) {
    blocks = 8;
  }
  kernel = prefill_cluster_kernel(blocks, shape.may_fuse && ascends(from));
  prompt_items.swap(items);
  return true;
}

bool AttentionPlanCuda::fuse(std::span<const AttentionRow> from, int32_t max_extras) {
  // Collects the slots that each query tile attends to outside the prefix of earlier steps, each
  // once.
  for (const AttentionItemCuda& query_tile : items) {
    slots_.clear();
    for (int32_t row_idx = query_tile.first_row;
         row_idx < query_tile.first_row + query_tile.num_rows; ++row_idx) {
      const AttentionRow& row = at(from, row_idx);
      const int32_t first = std::min(row.boundary, query_tile.stable_tokens);
      if (row.last_visible + 1 - first > kMaxExtras) return false;
      for (int32_t position = first; position <= row.last_visible; ++position) {
        const int32_t slot = slot_of(row, position);
        if (std::find(slots_.begin(), slots_.end(), slot) == slots_.end()) slots_.push_back(slot);
      }
      if (static_cast<int32_t>(slots_.size()) > max_extras) return false;
    }
  }
  ancestors.clear();
  for (AttentionItemCuda& query_tile : items) {
    slots_.clear();
    query_tile.extras = static_cast<int32_t>(extras.size());
    query_tile.prefix_tokens = 0;
    const int32_t* block_table = at(from, query_tile.first_row).block_table;
    for (int32_t row_idx = query_tile.first_row;
         row_idx < query_tile.first_row + query_tile.num_rows; ++row_idx) {
      const AttentionRow& row = at(from, row_idx);
      slots_.push_back(slot_of(row, row.last_visible));
      extras.push_back(~row_idx);
    }
    for (int32_t row_idx = query_tile.first_row;
         row_idx < query_tile.first_row + query_tile.num_rows; ++row_idx) {
      const AttentionRow& row = at(from, row_idx);
      AttentionRowCuda& to = rows[static_cast<size_t>(row_idx)];
      to.boundary = std::min(row.boundary, query_tile.stable_tokens);
      to.ancestors = static_cast<int32_t>(ancestors.size());
      query_tile.prefix_tokens = std::max(query_tile.prefix_tokens, to.boundary);
      for (int32_t position = to.boundary; position <= row.last_visible; ++position) {
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
    query_tile.num_extras = static_cast<int32_t>(slots_.size());
  }
  return true;
}

}  // namespace forerun::cuda
