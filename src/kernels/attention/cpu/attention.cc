// Distributes row blocks × KV heads (× spans) over the team and processes their tiles.
//
// A block of adjacent rows of one sequence shares every tile below the boundary of its rows, so K
// and V of a tile are read once for all their query heads; a tile that extends into the tree region
// is gathered row by row.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/attention/cpu/tile.h"
#include "kernels/isa.h"

namespace forerun {
namespace {

// Rows × query heads of a KV head, unless a single row has more.
constexpr int32_t kMaxBlockQueries = 32;
constexpr int32_t kMaxBlockRows = 16;
constexpr int32_t kTilesPerSpan = kAttentionSpan / kAttentionTile;

int32_t block_rows(int32_t num_heads, int32_t num_kv_heads) {
  return std::clamp(kMaxBlockQueries / (num_heads / num_kv_heads), 1, kMaxBlockRows);
}

int32_t max_block_queries(int32_t num_heads, int32_t num_kv_heads) {
  return block_rows(num_heads, num_kv_heads) * (num_heads / num_kv_heads);
}

void clear_state(float* state, int64_t padded_dim) {
  std::fill(state, state + padded_dim, 0.0f);
  state[padded_dim] = -std::numeric_limits<float>::infinity();
  state[padded_dim + 1] = 0.0f;
}

// A member's scratch, [max_block_queries] of each array; pointers and ranges are for one tile's
// queries.
struct MemberScratch {
  float* queries;      // [padded_dim]
  float* span_states;  // [state]
  float* totals;       // [state]
  float* scores;       // [64]
  std::byte* keys;     // gathered keys of one tile
};

// The addresses of the keys and values of one tile's positions (AttentionTile).
struct TileKv {
  std::array<const std::byte*, kAttentionTile / kKeyGroup> keys;
  std::array<const std::byte*, kAttentionTile> values;
  int64_t ahead = 0;  // bytes to the next tile's keys and values
};

int64_t member_floats(int64_t queries, int64_t padded_dim) {
  return queries * (padded_dim + 2 * softmax_state_floats(padded_dim) + kAttentionTile) +
         kAttentionTile * padded_dim;
}

}  // namespace

const AttentionKernels& attention_kernels() {
  const Isa isa = current_isa();
  if constexpr (isa_is_built(Isa::kAvx512Bf16)) {
    if (isa == Isa::kAvx512Bf16 || isa == Isa::kAmx) {
      static const AttentionKernels kernels{attention_kernels_avx512().f32,
                                            attention_kernels_bf16_dot()};
      return kernels;
    }
  }
  if constexpr (isa_is_built(Isa::kAvx512)) {
    if (isa == Isa::kAvx512) return attention_kernels_avx512();
  }
  if constexpr (isa_is_built(Isa::kAvx2)) {
    if (isa == Isa::kAvx2) return attention_kernels_avx2();
  }
  if constexpr (isa_is_built(Isa::kScalar)) return attention_kernels_scalar();
  std::abort();  // check_isa() has refused this CPU
}

void AttentionPlan::build(std::span<const AttentionRow> rows, int32_t num_heads,
                          int32_t num_kv_heads, int32_t team_size) {
  const int32_t max_rows = block_rows(num_heads, num_kv_heads);
  blocks.clear();
  int32_t highest = 0;
  for (size_t row_idx = 0; row_idx < rows.size(); ++row_idx) {
    highest = std::max(highest, rows[row_idx].last_visible);
    if (!blocks.empty() && blocks.back().num_rows < max_rows &&
        rows[row_idx - 1].block_table == rows[row_idx].block_table) {
      ++blocks.back().num_rows;
    } else {
      blocks.push_back({static_cast<int32_t>(row_idx), 1});
    }
  }
  num_spans = highest / kAttentionSpan + 1;
  const auto units = static_cast<int32_t>(blocks.size()) * num_kv_heads;
  // Splitting costs a barrier and one more pass over the states, so it is used only if whole units
  // would leave members idle for long.
  split_spans = num_spans > 1 && units % team_size != 0 && units < 8 * team_size;
}

void AttentionScratch::reserve(int32_t team_size, int32_t num_heads, int32_t num_kv_heads,
                               int32_t head_dim) {
  // Members' scratch is at least 64 bytes apart, so that they do not share cache lines.
  member_floats_ =
      member_floats(max_block_queries(num_heads, num_kv_heads), padded_head_dim(head_dim)) + 16;
  members_.resize(static_cast<size_t>(member_floats_ * team_size));
}

void AttentionScratch::reserve_partials(const AttentionPlan& plan, int64_t num_rows,
                                        int32_t num_heads, int32_t head_dim) {
  if (!plan.split_spans) return;
  const auto needed = static_cast<size_t>(num_rows * num_heads * plan.num_spans *
                                          softmax_state_floats(padded_head_dim(head_dim)));
  // Contexts grow by a token at a time: room for twice the spans avoids allocation in the steady
  // state.
  if (partials_.size() < needed) partials_.resize(2 * needed);
}

// The arguments of one attention() call, and the work on one unit.
struct AttentionCall {
  MatrixView<const float> q;
  std::span<const AttentionRow> rows;
  const PagedKv& kv;
  int32_t window;
  const AttentionPlan& plan;
  AttentionScratch* scratch;
  MatrixView<float> out;
  int32_t group;  // query heads per KV head
  int64_t padded_dim;
  AttentionTypeKernels type_kernels;

  int32_t lowest(const AttentionRow& row) const {
    return window > 0 ? std::max(0, row.last_visible - window + 1) : 0;
  }
  bool sees(const AttentionRow& row, int32_t span) const {
    return lowest(row) < (span + 1) * kAttentionSpan && row.last_visible >= span * kAttentionSpan;
  }
  int64_t state_floats() const { return softmax_state_floats(padded_dim); }
  int32_t num_heads() const { return group * kv.num_kv_heads; }

  MemberScratch member(int32_t rank) const {
    const int64_t queries = max_block_queries(num_heads(), kv.num_kv_heads);
    MemberScratch out_scratch;
    out_scratch.queries = scratch->members_.data() + rank * scratch->member_floats_;
    out_scratch.span_states = out_scratch.queries + queries * padded_dim;
    out_scratch.totals = out_scratch.span_states + queries * state_floats();
    out_scratch.scores = out_scratch.totals + queries * state_floats();
    out_scratch.keys = reinterpret_cast<std::byte*>(out_scratch.scores + queries * kAttentionTile);
    return out_scratch;
  }
  float* partial(int64_t row_idx, int64_t head, int64_t span) const {
    return scratch->partials_.data() +
           ((row_idx * num_heads() + head) * plan.num_spans + span) * state_floats();
  }

  void load_queries(const AttentionPlan::Block& block, int32_t kv_head,
                    const MemberScratch& mem) const {
    float* to = mem.queries;
    for (int32_t row = 0; row < block.num_rows; ++row) {
      const float* from =
          q.row(block.first_row + row) + static_cast<int64_t>(kv_head) * group * kv.head_dim;
      for (int32_t head = 0; head < group; ++head, to += padded_dim, from += kv.head_dim) {
        type_kernels.load_query(from, kv.head_dim, padded_dim, reinterpret_cast<std::byte*>(to));
      }
    }
  }

  // Reduces one span for the block's queries into mem.span_states.
  void reduce_span(const AttentionPlan::Block& block, int32_t kv_head, int32_t span,
                   const MemberScratch& mem) const;
  void reduce_tile(const AttentionPlan::Block& block, int32_t kv_head, int32_t tile_idx,
                   const MemberScratch& mem) const;
  void run_tile(const AttentionPlan::Block& block, int32_t first_row, int32_t num_rows,
                int32_t tile_idx, const TileKv& tile_kv, const MemberScratch& mem) const;
  void store(const float* state, int64_t row_idx, int64_t head) const {
    type_kernels.finish(state, padded_dim, kv.head_dim, out.row(row_idx) + head * kv.head_dim);
  }

  // Finds the keys and values of positions [first, last] of a tile that `row` partly finds through
  // its own list.
  void gather(const AttentionRow& row, int32_t kv_head, int32_t first, int32_t last,
              const MemberScratch& mem, TileKv& found) const;
  void run_whole_units(const Team& team) const;
  void run_split_spans(const Team& team) const;
};

void AttentionCall::run_tile(const AttentionPlan::Block& block, int32_t first_row, int32_t num_rows,
                             int32_t tile_idx, const TileKv& tile_kv,
                             const MemberScratch& mem) const {
  // Processes queries in portions, so that the lists below have a fixed size for any group.
  constexpr int32_t kPortion = kMaxBlockQueries;
  std::array<const std::byte*, kPortion> queries;
  std::array<int32_t, kPortion> first;
  std::array<int32_t, kPortion> last;
  std::array<float*, kPortion> states;
  AttentionTile tile;
  tile.padded_dim = padded_dim;
  tile.scale = 1.0f / std::sqrt(static_cast<float>(kv.head_dim));
  tile.queries = queries.data();
  tile.first = first.data();
  tile.last = last.data();
  tile.states = states.data();
  tile.keys = tile_kv.keys.data();
  tile.values = tile_kv.values.data();
  tile.ahead = tile_kv.ahead;
  tile.scores = mem.scores;
  const int32_t start = tile_idx * kAttentionTile;
  for (int32_t row_idx = first_row; row_idx < first_row + num_rows; ++row_idx) {
    const AttentionRow& row = rows[static_cast<size_t>(block.first_row + row_idx)];
    for (int32_t head = 0; head < group; ++head) {
      const auto at = static_cast<size_t>(tile.num_queries++);
      const int64_t query = static_cast<int64_t>(row_idx) * group + head;
      queries[at] = reinterpret_cast<const std::byte*>(mem.queries + query * padded_dim);
      first[at] = std::max(lowest(row) - start, 0);
      last[at] = std::min(row.last_visible - start, kAttentionTile - 1);
      states[at] = mem.span_states + query * state_floats();
      if (tile.num_queries == kPortion) {
        type_kernels.tile(tile);
        tile.num_queries = 0;
        tile.ahead = 0;  // prefetched already
      }
    }
  }
  if (tile.num_queries > 0) type_kernels.tile(tile);
}

void AttentionCall::gather(const AttentionRow& row, int32_t kv_head, int32_t first, int32_t last,
                           const MemberScratch& mem, TileKv& found) const {
  const int32_t start = first / kAttentionTile * kAttentionTile;
  const auto slot_of = [&row](int32_t position) {
    return position < row.boundary ? position : row.ancestors[position - row.boundary];
  };
  for (int32_t group_idx = 0; group_idx < kAttentionTile / kKeyGroup; ++group_idx) {
    std::byte* copy = mem.keys + group_idx * kKeyGroup * kv.head_bytes();
    found.keys[static_cast<size_t>(group_idx)] = copy;
    const int32_t begin = std::max(start + group_idx * kKeyGroup, first);
    const int32_t end = std::min(start + (group_idx + 1) * kKeyGroup, last + 1);
    if (begin >= end) continue;
    // Slots in the order of their positions already form a group in the kernel's layout.
    const int32_t first_slot = slot_of(begin);
    bool in_place = first_slot % kKeyGroup == begin % kKeyGroup;
    for (int32_t position = begin; position < end; ++position) {
      const int32_t slot = slot_of(position);
      in_place = in_place && slot == first_slot + (position - begin);
      found.values[static_cast<size_t>(position - start)] =
          kv.value(row.block_table[slot / kAttentionTile], slot % kAttentionTile, kv_head);
    }
    if (in_place) {
      found.keys[static_cast<size_t>(group_idx)] =
          kv.key(row.block_table[first_slot / kAttentionTile],
                 first_slot % kAttentionTile / kKeyGroup * kKeyGroup, kv_head);
      continue;
    }
    for (int32_t position = begin; position < end; ++position) {
      const int32_t slot = slot_of(position);
      copy_key(kv.key(row.block_table[slot / kAttentionTile], slot % kAttentionTile, kv_head),
               copy + position % kKeyGroup * kKeyPieceBytes, kv.head_bytes());
    }
  }
}

void AttentionCall::reduce_tile(const AttentionPlan::Block& block, int32_t kv_head,
                                int32_t tile_idx, const MemberScratch& mem) const {
  const int32_t start = tile_idx * kAttentionTile;
  const int32_t end = start + kAttentionTile - 1;
  TileKv found;
  for (int32_t row_idx = 0; row_idx < block.num_rows;) {
    const AttentionRow& row = rows[static_cast<size_t>(block.first_row + row_idx)];
    const int32_t first = std::max(lowest(row), start);
    const int32_t last = std::min(row.last_visible, end);
    if (first > last) {
      ++row_idx;
      continue;
    }
    if (last < row.boundary) {
      // Rows in a run that find this tile only through the block table share it.
      int32_t num_rows = 1;
      for (; row_idx + num_rows < block.num_rows; ++num_rows) {
        const AttentionRow& next = rows[static_cast<size_t>(block.first_row + row_idx + num_rows)];
        const int32_t next_last = std::min(next.last_visible, end);
        if (std::max(lowest(next), start) > next_last || next_last >= next.boundary) break;
      }
      const int32_t physical = row.block_table[tile_idx];
      for (int32_t offset = 0; offset < kAttentionTile; ++offset) {
        found.values[static_cast<size_t>(offset)] = kv.value(physical, offset, kv_head);
      }
      for (int32_t offset = 0; offset < kAttentionTile; offset += kKeyGroup) {
        found.keys[static_cast<size_t>(offset / kKeyGroup)] = kv.key(physical, offset, kv_head);
      }
      found.ahead = 0;
      if (end + 1 < row.boundary && end < row.last_visible) {
        found.ahead = (row.block_table[tile_idx + 1] - physical) * kv.block_stride_bytes;
      }
      run_tile(block, row_idx, num_rows, tile_idx, found, mem);
      row_idx += num_rows;
      continue;
    }
    gather(row, kv_head, first, last, mem, found);
    found.ahead = 0;
    run_tile(block, row_idx, 1, tile_idx, found, mem);
    ++row_idx;
  }
}

void AttentionCall::reduce_span(const AttentionPlan::Block& block, int32_t kv_head, int32_t span,
                                const MemberScratch& mem) const {
  const int32_t num_queries = block.num_rows * group;
  for (int32_t query = 0; query < num_queries; ++query) {
    clear_state(mem.span_states + query * state_floats(), padded_dim);
  }
  for (int32_t tile = span * kTilesPerSpan; tile < (span + 1) * kTilesPerSpan; ++tile) {
    reduce_tile(block, kv_head, tile, mem);
  }
}

void AttentionCall::run_whole_units(const Team& team) const {
  const MemberScratch mem = member(team.rank());
  const auto num_blocks = static_cast<int64_t>(plan.blocks.size());
  // The KV head is the outermost loop: its K and V stay in this core's cache over the blocks.
  // Members take units in turn, since later blocks of a prefill attend to more.
  for (int64_t unit = team.rank(); unit < num_blocks * kv.num_kv_heads; unit += team.size()) {
    const auto kv_head = static_cast<int32_t>(unit / num_blocks);
    const AttentionPlan::Block& block = plan.blocks[static_cast<size_t>(unit % num_blocks)];
    load_queries(block, kv_head, mem);
    for (int32_t query = 0; query < block.num_rows * group; ++query) {
      clear_state(mem.totals + query * state_floats(), padded_dim);
    }
    for (int32_t span = 0; span < plan.num_spans; ++span) {
      bool seen = false;
      for (int32_t row = 0; row < block.num_rows; ++row) {
        seen = seen || sees(rows[static_cast<size_t>(block.first_row + row)], span);
      }
      if (!seen) continue;
      reduce_span(block, kv_head, span, mem);
      for (int32_t query = 0; query < block.num_rows * group; ++query) {
        if (!sees(rows[static_cast<size_t>(block.first_row + query / group)], span)) continue;
        type_kernels.merge(mem.totals + query * state_floats(),
                           mem.span_states + query * state_floats(), padded_dim);
      }
    }
    for (int32_t query = 0; query < block.num_rows * group; ++query) {
      store(mem.totals + query * state_floats(), block.first_row + query / group,
            static_cast<int64_t>(kv_head) * group + query % group);
    }
  }
}

void AttentionCall::run_split_spans(const Team& team) const {
  const MemberScratch mem = member(team.rank());
  const int64_t units = static_cast<int64_t>(plan.blocks.size()) * kv.num_kv_heads * plan.num_spans;
  for (int64_t unit = team.rank(); unit < units; unit += team.size()) {
    const auto span = static_cast<int32_t>(unit % plan.num_spans);
    const auto kv_head = static_cast<int32_t>(unit / plan.num_spans % kv.num_kv_heads);
    const AttentionPlan::Block& block =
        plan.blocks[static_cast<size_t>(unit / plan.num_spans / kv.num_kv_heads)];
    load_queries(block, kv_head, mem);
    reduce_span(block, kv_head, span, mem);
    for (int32_t query = 0; query < block.num_rows * group; ++query) {
      const float* state = mem.span_states + query * state_floats();
      std::copy(state, state + state_floats(),
                partial(block.first_row + query / group,
                        static_cast<int64_t>(kv_head) * group + query % group, span));
    }
  }
  team.sync();
  const WorkRange share = team.share(static_cast<int64_t>(rows.size()) * num_heads());
  for (int64_t query = share.begin; query < share.end; ++query) {
    const int64_t row_idx = query / num_heads();
    const int64_t head = query % num_heads();
    clear_state(mem.totals, padded_dim);
    for (int32_t span = 0; span < plan.num_spans; ++span) {
      if (!sees(rows[static_cast<size_t>(row_idx)], span)) continue;
      type_kernels.merge(mem.totals, partial(row_idx, head, span), padded_dim);
    }
    store(mem.totals, row_idx, head);
  }
}

void attention(const Team& team, MatrixView<const float> q, std::span<const AttentionRow> rows,
               const PagedKv& kv, int32_t window, const AttentionPlan& plan,
               AttentionScratch* scratch, MatrixView<float> out) {
  const auto num_heads = static_cast<int32_t>(q.dim(1) / kv.head_dim);
  const AttentionCall call{
      q,
      rows,
      kv,
      window,
      plan,
      scratch,
      out,
      num_heads / kv.num_kv_heads,
      padded_head_dim(kv.head_dim),
      kv.dtype == DType::kF32 ? attention_kernels().f32 : attention_kernels().bf16};
  if (plan.split_spans) {
    call.run_split_spans(team);
  } else {
    call.run_whole_units(team);
  }
}

}  // namespace forerun
