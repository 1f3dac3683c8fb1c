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

// How a step's rows are worked on. The bits are the same.
enum class AttentionMode : uint8_t {
  kWhole,  // an item is all spans of its rows, merged as they come: enough groups to go round
  kSplit,  // an item is one span; the partial results are merged afterwards
  // Split, and the kernel itself rotates and appends: the step's own keys come from the linear
  // layer's output. For few rows with small trees.
  kFused,
};

// Positions past the prefix that the rows of a fused group may see, together.
inline constexpr int kMostExtras = 64;

// As the kernel reads them: 16-byte loads.
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
  int32_t appends = 0;     // kFused: this item writes its rows' keys and values to the cache
  int32_t extras = 0;      // kFused: index of its first extra key in `extras`
  int32_t num_extras = 0;  // kFused: at most kMostExtras; 0 where no row of the item sees any
  int32_t unused[2] = {};
};

// Reusable: keeps its memory.
class AttentionPlanCuda {
 public:
  std::vector<AttentionRowCuda> rows;
  std::vector<AttentionItemCuda> items;  // for every key/value head
  std::vector<int32_t> tables;           // block numbers, one sequence after another
  // kFused: numbers of the group's extra keys. Otherwise physical slots: block * 64 + offset.
  std::vector<int32_t> ancestors;
  std::vector<int32_t> extras;  // kFused: physical slots of earlier steps, or ~row of this one
  int32_t num_groups = 0;
  int32_t num_partials = 0;  // for every key/value head
  AttentionMode mode = AttentionMode::kSplit;
  bool long_contexts = false;  // blocks have several tiles each

  // `kv_heads`: key/value heads, times the parts that a head's queries are cut into. Rows of one
  // sequence are neighbours and share a block table's address. `most_partials` bounds num_partials.
  // `may_fuse`: the model's heads are such that the kernel can rotate.
  void build(std::span<const AttentionRow> from, int32_t kv_heads, int32_t multiprocessors,
             int32_t most_partials, bool may_fuse);

 private:
  void add_group(std::span<const AttentionRow> from, int32_t begin, int32_t end, int32_t table,
                 int32_t stable);
  void deal_out_spans();
  bool fuse(std::span<const AttentionRow> from);

  std::vector<AttentionItemCuda> groups_;  // scratch
  std::vector<int32_t> slots_;             // scratch of fuse()
};

}  // namespace forerun::cuda
