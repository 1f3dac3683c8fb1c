// Selects tokens. Scores come from the tiles of attention (attention/cpu/tile.h), for 64 tokens and
// all queries of a KV head at a time, and are kept until every query's sum is known.
#include "kernels/kv_select/kv_select.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/attention/cpu/tile.h"

namespace forerun {
namespace {

int32_t group_of(const KvSelectionCall& call, const PagedKv& kv) {
  return static_cast<int32_t>(call.queries.dim(1) / kv.head_dim) / kv.num_kv_heads;
}

int32_t tiles_of(int32_t tokens) { return (tokens + kAttentionTile - 1) / kAttentionTile; }

// Returns the number of tiles that any observer attends to.
int32_t tiles_weighed(const KvSelectionCall& call) {
  return tiles_of(call.weighed(call.queries.dim(0) - 1));
}

const AttentionTypeKernels& kernels_of(const PagedKv& kv) {
  return kv.dtype == DType::kF32 ? attention_kernels().f32 : attention_kernels().bf16;
}

// Loads the queries of a KV head, [observer][head of the group], in the kernel's order.
void load_queries(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head,
                  std::vector<std::byte>& queries, std::vector<const std::byte*>& list) {
  const int32_t group = group_of(call, kv);
  const int64_t padded_dim = padded_head_dim(kv.head_dim);
  std::byte* to = queries.data();
  size_t query_idx = 0;
  for (int64_t row = 0; row < call.queries.dim(0); ++row) {
    for (int32_t head = 0; head < group; ++head) {
      kernels_of(kv).load_query(call.queries.row(row) + (kv_head * group + head) * kv.head_dim,
                                kv.head_dim, padded_dim, to);
      list[query_idx++] = to;
      to += padded_dim * static_cast<int64_t>(sizeof(float));
    }
  }
}

// Computes scores [tile][query][64] for the tiles from first_tile on.
void score_keys(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head, int32_t first_tile,
                const std::vector<const std::byte*>& queries, std::vector<float>& scores) {
  const int32_t* const table = call.block_table;
  const int32_t num_tiles = tiles_weighed(call);
  std::array<const std::byte*, kAttentionTile / kKeyGroup> keys;
  AttentionTile tile;
  tile.padded_dim = padded_head_dim(kv.head_dim);
  tile.scale = 1.0f / std::sqrt(static_cast<float>(kv.head_dim));
  tile.num_queries = static_cast<int32_t>(call.queries.dim(0)) * group_of(call, kv);
  tile.queries = queries.data();
  tile.keys = keys.data();
  for (int32_t tile_idx = first_tile; tile_idx < num_tiles; ++tile_idx) {
    for (int32_t offset = 0; offset < kAttentionTile; offset += kKeyGroup) {
      keys[static_cast<size_t>(offset / kKeyGroup)] = kv.key(table[tile_idx], offset, kv_head);
    }
    tile.ahead = tile_idx + 1 < num_tiles
                     ? (table[tile_idx + 1] - table[tile_idx]) * kv.block_stride_bytes
                     : 0;
    tile.scores = scores.data() + int64_t{tile_idx} * tile.num_queries * kAttentionTile;
    kernels_of(kv).scores(tile);
  }
}

// Computes the scores of the candidate tokens from the index.
void score_codes(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head,
                 std::vector<const float*>& queries, std::vector<float>& scores,
                 PqScratch& scratch) {
  const int32_t group = group_of(call, kv);
  const int64_t num_queries = call.queries.dim(0) * group;
  for (int64_t query_idx = 0; query_idx < num_queries; ++query_idx) {
    queries[static_cast<size_t>(query_idx)] =
        call.queries.row(query_idx / group) + (kv_head * group + query_idx % group) * kv.head_dim;
  }
  const float scale = kernels_of(kv).score_unit / std::sqrt(static_cast<float>(kv.head_dim));
  pq_scores(kv, kv_head, call.index, call.tokens,
            std::span(queries).first(static_cast<size_t>(num_queries)), scale, scores.data(),
            scratch);
}

// Returns the maximum of 64 scores, in independent lanes so that the compiler vectorizes the loop.
float highest_of(const float* scores) {
  std::array<float, 16> highest;
  std::copy_n(scores, highest.size(), highest.begin());
  for (size_t at = highest.size(); at < kAttentionTile; at += highest.size()) {
    for (size_t lane = 0; lane < highest.size(); ++lane) {
      const float score = scores[at + lane];
      highest[lane] = highest[lane] < score ? score : highest[lane];
    }
  }
  return *std::max_element(highest.begin(), highest.end());
}

void add_weights(const KvSelectionCall& call, const PagedKv& kv, std::vector<float>& scores,
                 std::vector<float>& importance) {
  const int32_t group = group_of(call, kv);
  const int64_t num_queries = call.queries.dim(0) * group;
  std::fill_n(importance.begin(), call.tokens, 0.0f);
  for (int64_t query = 0; query < num_queries; ++query) {
    const int32_t weighed = call.weighed(query / group);
    const int32_t num_tiles = tiles_of(weighed);
    const auto of_tile = [&](int32_t tile) {
      return scores.data() + (tile * num_queries + query) * kAttentionTile;
    };
    std::fill(of_tile(num_tiles - 1) + (weighed - 1) % kAttentionTile + 1,
              of_tile(num_tiles - 1) + kAttentionTile, -std::numeric_limits<float>::infinity());
    float highest = highest_of(of_tile(0));
    for (int32_t tile = 1; tile < num_tiles; ++tile) {
      highest = std::max(highest, highest_of(of_tile(tile)));
    }
    double sum = 0.0;
    for (int32_t tile = 0; tile < num_tiles; ++tile) {
      sum += kernels_of(kv).powers(of_tile(tile), kAttentionTile, highest);
    }
    // Skips queries of NaN: they come from a draft token that may never be accepted.
    if (!(sum > 0.0)) continue;
    const auto share = static_cast<float>(1.0 / sum);
    for (int32_t begin = 0; begin < call.tokens; begin += kAttentionTile) {
      const float* const weights = of_tile(begin / kAttentionTile);
      float* const to = importance.data() + begin;
      const int32_t count = std::min(kAttentionTile, call.tokens - begin);
      for (int32_t offset = 0; offset < count; ++offset) to[offset] += weights[offset] * share;
    }
  }
}

void pool(const KvSelectionCall& call, const std::vector<float>& importance,
          std::vector<float>& pooled) {
  const int32_t reach = call.pooling / 2;
  for (int32_t token = 0; token < call.tokens; ++token) {
    float sum = 0.0f;
    const int32_t end = std::min(token + reach + 1, call.tokens);
    for (int32_t other = std::max(token - reach, 0); other < end; ++other) {
      sum += importance[static_cast<size_t>(other)];
    }
    pooled[static_cast<size_t>(token)] = sum;
  }
}

void gather(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head,
            const std::vector<int32_t>& order) {
  const int32_t* const table = call.block_table;
  for (int32_t to = 0; to < call.chosen; ++to) {
    const int32_t token = order[static_cast<size_t>(to)];
    copy_kv_head(kv, kv_head, table[token / kAttentionTile], token % kAttentionTile,
                 call.blocks[to / kAttentionTile], to % kAttentionTile);
  }
}

}  // namespace

void KvSelectionScratch::reserve(int32_t team_size, const KvSelectionCall& call, int32_t num_heads,
                                 const PagedKv& kv) {
  const auto queries =
      static_cast<size_t>(call.queries.dim(0) * (num_heads / std::max(kv.num_kv_heads, 1)));
  const auto grow = [](auto& values, size_t size) {
    if (values.size() < size) values.resize(size);
  };
  if (members_.size() < static_cast<size_t>(team_size)) {
    members_.resize(static_cast<size_t>(team_size));
  }
  for (Member& member : members_) {
    grow(member.scores, static_cast<size_t>(tiles_weighed(call) * kAttentionTile) * queries);
    grow(member.queries,
         static_cast<size_t>(padded_head_dim(kv.head_dim)) * sizeof(float) * queries);
    grow(member.query_list, queries);
    grow(member.query_rows, queries);
    grow(member.importance, static_cast<size_t>(call.tokens));
    grow(member.pooled, static_cast<size_t>(call.tokens));
    grow(member.order, static_cast<size_t>(call.tokens));
    if (call.index.blocks != nullptr) member.index.reserve(kv.head_dim, call.tokens);
  }
}

void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
               KvSelectionScratch* scratch) {
  KvSelectionScratch::Member& mem = scratch->members_[static_cast<size_t>(team.rank())];
  for (int32_t kv_head = team.rank(); kv_head < kv.num_kv_heads; kv_head += team.size()) {
    load_queries(call, kv, kv_head, mem.queries, mem.query_list);
    int32_t first_tile = 0;
    if (call.index.blocks != nullptr) {
      pq_update(kv, kv_head, call.block_table, call.index, call.tokens, mem.index);
      score_codes(call, kv, kv_head, mem.query_rows, mem.scores, mem.index);
      first_tile = call.tokens / kAttentionTile;
    }
    score_keys(call, kv, kv_head, first_tile, mem.query_list, mem.scores);
    add_weights(call, kv, mem.scores, mem.importance);
    pool(call, mem.importance, mem.pooled);
    const auto end = mem.order.begin() + call.tokens;
    const auto last = mem.order.begin() + call.chosen;
    std::iota(mem.order.begin(), end, 0);
    const auto before = [&](int32_t a, int32_t b) {
      const float of_a = mem.pooled[static_cast<size_t>(a)];
      const float of_b = mem.pooled[static_cast<size_t>(b)];
      return of_a > of_b || (of_a == of_b && a < b);
    };
    if (last != end) std::nth_element(mem.order.begin(), last, end, before);
    std::sort(mem.order.begin(), last);
    gather(call, kv, kv_head, mem.order);
  }
}

}  // namespace forerun
