// How the rows of a forward are dealt to a GPU's blocks: host arithmetic only, so that it is tested
// where there is no GPU.
//
// Sums run as on the CPU, by logical position: positions fall into tiles of 64, tiles into spans; a
// span is a running softmax over its tiles in ascending order, and spans are merged in ascending
// order. The length of a row's spans comes from the row's position alone, so a row's bits depend
// neither on its companions nor on whether one block takes all of its spans or many blocks one
// each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun::cuda {

inline constexpr int kTilePositions = kAttentionTile;
// Rows that a block works on at once, a warp each: neighbours of one sequence, which share tiles.
inline constexpr int kGroupRows = 8;

// Tiles of a span of a row at `position`. Short contexts need many blocks at work; long ones have
// tiles enough, and partial results cost bandwidth.
constexpr int span_tiles(int position) {
  return position < 4096 ? 1 : position < 16384 ? 2 : position < 65536 ? 8 : 16;
}
constexpr int num_spans(int position) {
  const int tiles = position / kTilePositions + 1;
  return (tiles + span_tiles(position) - 1) / span_tiles(position);
}

// As the kernel reads them: two 16-byte loads each.
struct alignas(16) AttentionRowCuda {
  int32_t position = 0;
  int32_t boundary = 0;
  int32_t table = 0;      // index of its sequence's block table in `tables`
  int32_t ancestors = 0;  // index of its first ancestor in `ancestors`
  int32_t group = 0;
  int32_t group_items = 0;    // blocks whose partial results it waits for, a key/value head
  int32_t first_partial = 0;  // its span s has the partial result first_partial + s
  int32_t unused = 0;
};

struct alignas(16) AttentionItemCuda {
  int32_t first_row = 0;
  int32_t num_rows = 0;  // at most kGroupRows
  int32_t first_tile = 0;
  int32_t end_tile = 0;
  int32_t prefix_tokens = 0;  // the highest boundary of the rows
  int32_t stable_tokens = 0;  // slots below it were written by earlier steps
  int32_t group = 0;
  int32_t unused = 0;
};

// Reusable: keeps its memory.
class AttentionPlanCuda {
 public:
  std::vector<AttentionRowCuda> rows;
  std::vector<AttentionItemCuda> items;  // for every key/value head
  std::vector<int32_t> tables;           // block numbers, one sequence after another
  std::vector<int32_t> ancestors;        // physical slots: block * 64 + offset
  int32_t num_groups = 0;
  int32_t num_partials = 0;  // for every key/value head
  // An item is all spans of its rows, merged as they come. Otherwise it is one span, whose result
  // is merged with the others' afterwards.
  bool whole = false;

  // `kv_heads`: key/value heads, times the parts that a head's queries are cut into. Rows of one
  // sequence are neighbours and share a block table's address. `most_partials` bounds num_partials.
  void build(std::span<const AttentionRow> from, int32_t kv_heads, int32_t multiprocessors,
             int32_t most_partials);

 private:
  std::vector<AttentionItemCuda> groups_;  // scratch
};

}  // namespace forerun::cuda
