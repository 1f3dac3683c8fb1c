// The assignment of a forward pass's rows to a GPU's blocks. It is host arithmetic only, so tests
// need no GPU.
//
// Sums run as on the CPU, by logical position: positions fall into tiles of 64, tiles into spans; a
// span is a running softmax over its tiles in ascending order, and spans are merged in ascending
// order. A row's last visible position alone determines its spans (KV splits). That gives batch
// invariance, whether one block takes all of its spans or many blocks take one each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/cuda/persistent_schedule.h"

namespace forerun::cuda {

inline constexpr int kTilePositions = kAttentionTile;
// Rows that a block processes at once, one warp each: adjacent rows of one sequence, which share
// tiles.
inline constexpr int kQueryTileRows = 8;

// Returns the tiles per span of a row whose last visible position is `position`. Short contexts
// have short spans, so that many blocks work, but at most kDecodeClusterSpans of them below
// kMaxDecodeClusterTokens; long contexts have enough tiles.
inline constexpr int kMaxDecodeClusterTokens = 3712;
constexpr int span_shift(int position) {  // log2 of span_tiles()
  return position < 1024    ? 0
         : position < 1920  ? 1
         : position < 16384 ? 2
         : position < 65536 ? 3
                            : 4;
}
constexpr int span_tiles(int position) { return 1 << span_shift(position); }
// Returns the first tile that is a span by itself. The last two tiles are: a tree's rows share all
// others.
constexpr int first_single_tile(int position) {
  return position < kTilePositions ? 0 : position / kTilePositions - 1;
}
constexpr int span_of(int position, int tile) {
  const int singles = first_single_tile(position);
  const int shift = span_shift(position);
  return tile < singles ? tile >> shift : ((singles + (1 << shift) - 1) >> shift) + tile - singles;
}
constexpr bool ends_span(int position, int tile) {
  return tile + 1 >= first_single_tile(position) || ((tile + 1) & (span_tiles(position) - 1)) == 0;
}
// Returns the last span that a row's first `tiles` tiles reach. Their total is stored in its place.
constexpr int span_of_total(int position, int tiles) {
  const int last = position / kTilePositions;
  return tiles == 0 ? 0 : span_of(position, tiles - 1 < last ? tiles - 1 : last);
}
constexpr int num_spans(int position) { return span_of(position, position / kTilePositions) + 1; }

// The kernels of attention, with their partitions of a step's rows and KV. All give the same bits.
// A query tile is some rows of a sequence with the query heads of one key/value head (rows and
// heads packed together, as by PackGQA).
enum class AttentionKernel : uint8_t {
  // No split-KV: a block takes a query tile of 8 rows, one warp each, and all of their spans,
  // merged as they end. For many query tiles that kPrefill and kPersistent cannot take
  // (attention/cuda/rows.cu).
  kUnsplitKv,
  // No split-KV, for rows that attend only to their prefix: a block takes a query tile of up to 128
  // columns by wgmma, fed by a producer warpgroup (attention/cuda/prefill.cu).
  kPrefill,
  // kPrefill for few rows: a cluster of 2, 4 or 8 blocks takes a query tile of up to 64 columns.
  // Its warpgroups take the spans in turn (split-KV within the cluster) and merge them through
  // distributed shared memory (attention/cuda/prefill_cluster.cu).
  kPrefillCluster2,
  kPrefillCluster4,
  kPrefillCluster8,
  // The same clusters with fused RoPE and append; an item waits for the keys of the items before
  // it.
  kPrefillCluster2FusedRope,
  kPrefillCluster4FusedRope,
  kPrefillCluster8FusedRope,
  // Split-KV: a block takes one span of a query tile of 8 rows, one warp each; the same launch
  // merges the partial results through the L2. SharedPrefix makes it cascade attention
  // (attention/cuda/shared.cu).
  kSplitKv,
  // kSplitKv with fused RoPE and append: the step's own keys come from the linear layer's output.
  // For few rows with small trees.
  kSplitKvFusedRope,
  // Split-KV within a cluster, with fused RoPE and append: its 8 blocks share the spans of a query
  // tile of up to 32 columns and merge them through distributed shared memory. For few rows over
  // short contexts (attention/cuda/decode_cluster.cu).
  kDecodeCluster,
  // kDecodeCluster with query tiles of up to 48 columns, for steps whose kDecodeCluster clusters
  // would not all be resident.
  kWideDecodeCluster,
  // Persistent warpgroups, which take even shares of all tiles across sequences, cut as by
  // stream-K. For many sequences of few rows (attention/cuda/persistent.cu).
  kPersistent,
  // Prompts by kPrefill, then all other rows by kPersistent: two launches.
  kPrefillThenPersistent,
};

constexpr bool is_decode_cluster(AttentionKernel kernel) {
  return kernel == AttentionKernel::kDecodeCluster || kernel == AttentionKernel::kWideDecodeCluster;
}
constexpr bool is_fused_prefill_cluster(AttentionKernel kernel) {
  return kernel == AttentionKernel::kPrefillCluster2FusedRope ||
         kernel == AttentionKernel::kPrefillCluster4FusedRope ||
         kernel == AttentionKernel::kPrefillCluster8FusedRope;
}
// Returns the blocks of a prefill cluster; 0 for other kernels.
constexpr int prefill_cluster_blocks(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kPrefillCluster2:
    case AttentionKernel::kPrefillCluster2FusedRope:
      return 2;
    case AttentionKernel::kPrefillCluster4:
    case AttentionKernel::kPrefillCluster4FusedRope:
      return 4;
    case AttentionKernel::kPrefillCluster8:
    case AttentionKernel::kPrefillCluster8FusedRope:
      return 8;
    default:
      return 0;
  }
}
// Returns whether the kernel itself rotates queries and keys and appends to the cache, from the
// linear layer's output. For the other kernels rope_append_cuda() does it before.
constexpr bool fuses_rope_append(AttentionKernel kernel) {
  return kernel == AttentionKernel::kSplitKvFusedRope || is_decode_cluster(kernel) ||
         is_fused_prefill_cluster(kernel);
}

// Prefix items are spans that all rows of some query tiles share. kNone: the plan has none;
// kNarrow: each has at most a warpgroup's 64 columns; kWide: some have more.
enum class SharedPrefix : uint8_t { kNone, kNarrow, kWide };

// The largest number of positions past the prefix that the rows of a fused query tile attend to
// together.
inline constexpr int kMaxExtras = 64;

// Columns (rows times the query heads of a key/value head, 8 of them at most) and rows of an item.
inline constexpr int kPrefillColumns = 128;  // kPrefill and prefix items
inline constexpr int kPrefillClusterColumns = 64;
inline constexpr int kPrefixRows = 32;  // largest number of rows of a prefix item

// Columns per unit of kPersistent.
inline constexpr int kPersistentColumns = 64;
// Numbers that a worker adds to a unit's arrival counter when it publishes its partial (O, m, l):
// kHandedOver if the unit's next worker continues from it, kTotalReady if rows with their own tiles
// do.
inline constexpr int kHandedOver = 1 << 16;
inline constexpr int kTotalReady = 1 << 24;

// For is_decode_cluster(): blocks per cluster; clusters that are resident at once, with one block
// per SM (of 132) or, in the variant with fewer registers, two; and the limits of an item's
// columns, rows, positions past the prefix and spans.
inline constexpr int kDecodeClusterBlocks = 8;
inline constexpr int kResidentClusters = 15;
inline constexpr int kMaxDecodeClusters = 2 * kResidentClusters;
inline constexpr int kNarrowDecodeClusterColumns = 32;  // with kQueryTileRows rows
inline constexpr int kWideDecodeClusterColumns = 48;    // kWideDecodeCluster
inline constexpr int kWideDecodeClusterRows = 12;
inline constexpr int kDecodeClusterExtras = 32;
inline constexpr int kDecodeClusterSpans = 16;
static_assert(num_spans(kMaxDecodeClusterTokens - 1) <= kDecodeClusterSpans &&
              num_spans(1919) <= kDecodeClusterSpans && num_spans(1023) <= kDecodeClusterSpans);

// For prefill clusters: clusters that are resident at once, with one block per SM; warpgroups of a
// block and of a cluster; the largest cluster, since a block's share of the dimensions is a
// multiple of 16; and the number of tiles from which on the exchange between blocks costs less than
// it gains.
constexpr int max_prefill_clusters(int blocks) {
  return kResidentClusters * kDecodeClusterBlocks / blocks;
}
inline constexpr int kPrefillClusterWarpgroups = 2;  // warpgroups of a block
constexpr int prefill_cluster_warpgroups(int blocks) { return kPrefillClusterWarpgroups * blocks; }
constexpr int largest_prefill_cluster(int head_dim) { return head_dim > 64 ? 8 : 4; }
inline constexpr int kMinPrefillClusterTiles = 4;

// Returns the largest number of rows of an item with `row_columns` columns each.
constexpr int decode_cluster_rows(int row_columns, bool wide) {
  return wide ? std::min(kWideDecodeClusterRows, kWideDecodeClusterColumns / row_columns)
              : std::min(kQueryTileRows, kNarrowDecodeClusterColumns / row_columns);
}

// A row in the form that kernels read, by 16-byte loads.
struct alignas(16) AttentionRowCuda {
  int32_t last_visible = 0;
  int32_t boundary = 0;
  int32_t table = 0;      // index of its sequence's block table in `tables`
  int32_t ancestors = 0;  // index of its first ancestor in `ancestors`
  int32_t query_tile = 0;
  // Arrivals that its merge waits for, per key/value head: one per item, two per prefix item.
  int32_t query_tile_items = 0;
  int32_t first_partial = 0;  // its span s has partial result first_partial + s
  int32_t unused = 0;
};

struct alignas(16) AttentionItemCuda {
  int32_t first_row = 0;
  int32_t num_rows = 0;  // at most kQueryTileRows; prefix and prompt items are bounded by columns
  int32_t first_tile = 0;
  int32_t end_tile = 0;
  int32_t prefix_tokens = 0;  // highest boundary of the rows
  int32_t stable_tokens = 0;  // slots below it were written by earlier steps
  int32_t query_tile = 0;
  // kSplitKvFusedRope, is_decode_cluster(): the item writes its rows' keys and values to the cache,
  // as every item of a fused prefill cluster does.
  int32_t appends = 0;
  // kSplitKvFusedRope, is_decode_cluster(): index of its first extra key in `extras`, and their
  // number, at most kMaxExtras; 0 if its rows have none.
  int32_t extras = 0;
  int32_t num_extras = 0;
  int32_t lowest = 0;        // smallest last_visible of its rows
  int32_t table = 0;         // AttentionRowCuda::table of its rows
  int32_t shared_tiles = 0;  // tiles below every row's boundary
  int32_t row_spans = 0;     // is_decode_cluster(): sum of its rows' spans
  // kPersistent: tiles from end_tile on, which rows process separately (`items`).
  int32_t own_tiles = 0;
  int32_t is_split = 0;  // kPersistent: results of own_tiles are merged with partial results
};

// kPersistent: a unit with more than one partial result to merge.
struct alignas(16) AttentionMergeCuda {
  int32_t query_tile = 0;
  int32_t part = 0;
  // Tiles of the first partial result, which is stored in its last span's place.
  int32_t total_tiles = 0;
  int32_t arrivals = 0;  // number of arrivals that the merge waits for
};

// The properties of the model and the GPU that a plan depends on.
struct AttentionShapeCuda {
  int32_t kv_parts = 1;     // key/value heads times query_parts()
  int32_t row_columns = 1;  // query heads of a part: at most 8
  int32_t multiprocessors = 132;
  int32_t max_partials = 0;                // upper bound of num_partials
  bool may_fuse = false;                   // can_fuse_rope()
  bool may_tile = true;                    // heads of up to 128 dimensions
  bool may_cluster = true;                 // if false, the plan uses no clusters of any kind
  int32_t max_prefill_cluster_blocks = 4;  // largest_prefill_cluster()
  // The plan chooses kPersistent from this many units on if the rows belong to several sequences; 0
  // for always.
  int32_t min_persistent_units = 64;
};

// A plan, which reuses its memory.
class AttentionPlanCuda {
 public:
  std::vector<AttentionRowCuda> rows;
  std::vector<AttentionItemCuda> items;  // for every key/value head
  std::vector<int32_t> tables;           // block numbers, one sequence after another
  // kSplitKvFusedRope, is_decode_cluster(): numbers of the query tile's extra keys. Other kernels:
  // physical slots, block * 64 + offset.
  std::vector<int32_t> ancestors;
  // kSplitKvFusedRope, is_decode_cluster(): a physical slot of an earlier step, or ~row of this
  // step; a query tile's own rows come first.
  std::vector<int32_t> extras;
  int32_t num_query_tiles = 0;
  int32_t num_partials = 0;  // for every key/value head
  AttentionKernel kernel = AttentionKernel::kSplitKv;
  // kSplitKv, kSplitKvFusedRope: spans that all rows of some adjacent query tiles share, one item
  // each; its query tile is the first of them.
  std::vector<AttentionItemCuda> prefix_items;
  SharedPrefix shared_prefix = SharedPrefix::kNone;
  std::vector<AttentionItemCuda>
      prompt_items;  // kPrefill, prefill clusters, kPrefillThenPersistent
  // kPersistent, kPrefillThenPersistent: prefix_items are the query tiles, `items` the tiles that
  // rows process separately.
  std::vector<AttentionRunCuda> runs;
  std::vector<AttentionWorkerCuda> workers;  // kPersistentWorkers per SM
  std::vector<AttentionMergeCuda> merges;

  // Builds the plan. Rows of one sequence must be adjacent and share a block table's address.
  void build(std::span<const AttentionRow> from, const AttentionShapeCuda& shape);

 private:
  // Makes the query tiles. With `even` it makes as few as `max_rows` allows, which differ by at
  // most a row if the rows' spans are alike.
  void make_query_tiles(std::span<const AttentionRow> from, int32_t max_rows, bool by_tile,
                        bool even = false);
  void add_query_tile(std::span<const AttentionRow> from, int32_t begin, int32_t end, int32_t table,
                      int32_t stable);
  // Each of these functions chooses its kernels and makes their items, or returns false if they do
  // not suit the rows. With `or_partition` it also returns false if split KV would be faster. `few`
  // says that there are too few query tiles to keep all SMs busy without split KV.
  bool try_decode_clusters(std::span<const AttentionRow> from, const AttentionShapeCuda& shape);
  bool try_prefill_clusters(std::span<const AttentionRow> from, const AttentionShapeCuda& shape,
                            bool or_partition);
  bool try_persistent(std::span<const AttentionRow> from, bool few,
                      const AttentionShapeCuda& shape);
  void partition_kv();
  void partition_prefixes(int32_t row_columns);
  bool fuse(std::span<const AttentionRow> from, int32_t max_extras);
  void clear();
  void add_persistent_query_tile(std::span<const AttentionRow> from, int32_t begin, int32_t end,
                                 int32_t table, int32_t stable, bool prompt);
  int32_t add_table(std::span<const AttentionRow> from, int32_t begin, int32_t end,
                    int32_t* stable);
  void place_partials(int32_t parts);

  std::vector<AttentionItemCuda> query_tiles_;  // scratch
  // Scratch of try_persistent().
  AttentionScheduleCuda schedule_;
  std::vector<PersistentQueryTileCuda> persistent_query_tiles_;
  std::vector<int32_t> slots_;  // scratch of fuse()
};

}  // namespace forerun::cuda
