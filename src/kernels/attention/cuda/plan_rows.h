// Properties of rows that the files of the plan (attention/cuda/plan.h) need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"
#include "kernels/attention/cuda/plan.h"

namespace forerun::cuda {

inline const AttentionRow& at(std::span<const AttentionRow> rows, int32_t index) {
  return rows[static_cast<size_t>(index)];
}

// Returns the slot of a visible position of the row.
inline int32_t slot_of(const AttentionRow& row, int32_t position) {
  return position < row.boundary ? position : row.ancestors[position - row.boundary];
}

inline int32_t physical(const AttentionRow& row, int32_t slot) {
  return row.block_table[slot / kTilePositions] * kTilePositions + slot % kTilePositions;
}

// Returns a position below which a row finds every position in the slot of the same number: a chain
// behind the prefix is prefix for rows that attend to all of it.
inline int32_t chain_end(const AttentionRow& row) {
  int32_t end = row.boundary;
  while (end <= row.last_visible && row.ancestors[end - row.boundary] == end) ++end;
  return end;
}
inline bool sees_prefix_only(const AttentionRow& row) { return chain_end(row) > row.last_visible; }

inline bool see_prefix_only(std::span<const AttentionRow> rows) {
  return std::all_of(rows.begin(), rows.end(), sees_prefix_only);
}

// Returns whether all rows belong to one sequence; rows of one sequence are adjacent.
inline bool are_of_one_sequence(std::span<const AttentionRow> rows) {
  return rows.front().block_table == rows.back().block_table;
}

// Returns whether each sequence's rows are in the order of their last visible positions. Then rows
// without ancestors attend, among this step's keys, only to their own and those of earlier rows.
inline bool ascends(std::span<const AttentionRow> rows) {
  const auto descends = [](const AttentionRow& row, const AttentionRow& next) {
    return row.block_table == next.block_table && next.last_visible < row.last_visible;
  };
  return std::adjacent_find(rows.begin(), rows.end(), descends) == rows.end();
}

// Returns the end of the query tile that begins with row `begin`; rows [begin, end) must belong to
// one sequence. With `by_tile`, rows of a query tile end in the same tile if that determines their
// spans.
inline int32_t query_tile_end(std::span<const AttentionRow> from, int32_t begin, int32_t end,
                              int32_t max_rows, bool by_tile) {
  const int32_t step = span_tiles(at(from, begin).last_visible);
  int32_t next = begin;
  while (next < end && next - begin < max_rows && span_tiles(at(from, next).last_visible) == step &&
         (!by_tile || step == 1 ||
          at(from, next).last_visible / kTilePositions ==
              at(from, begin).last_visible / kTilePositions)) {
    ++next;
  }
  return next;
}

}  // namespace forerun::cuda
