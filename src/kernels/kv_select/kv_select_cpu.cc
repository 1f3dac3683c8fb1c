#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kv_select/kv_select.h"

namespace forerun {
namespace {

// A key's pieces of 16 bytes lie 64 bytes apart.
void read_key(const PagedKv& kv, const std::byte* key, float* out) {
  const bool is_f32 = kv.dtype == DType::kF32;
  const int32_t piece = is_f32 ? 4 : 8;
  for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
    const int32_t element = dim / piece * piece * kKeyGroup + dim % piece;
    out[dim] = is_f32 ? reinterpret_cast<const float*>(key)[element]
                      : to_float(reinterpret_cast<const bf16*>(key)[element]);
  }
}

int32_t group_of(const KvSelectionCall& call, const PagedKv& kv) {
  return static_cast<int32_t>(call.queries.dim(1) / kv.head_dim) / kv.num_kv_heads;
}

// By any observer.
int32_t most_weighed(const KvSelectionCall& call) { return call.weighed(call.queries.dim(0) - 1); }

// The queries of a KV head, scaled, side by side: sums then run over queries, which a compiler
// turns into vectors without changing the order of any of them.
void load_queries(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head,
                  std::vector<float>& queries) {
  const int32_t group = group_of(call, kv);
  const auto rows = static_cast<int32_t>(call.queries.dim(0));
  const float scale = 1.0f / std::sqrt(static_cast<float>(kv.head_dim));
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t head = 0; head < group; ++head) {
      const float* const query = call.queries.row(row) + (kv_head * group + head) * kv.head_dim;
      for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
        queries[static_cast<size_t>(dim * rows * group + row * group + head)] = query[dim] * scale;
      }
    }
  }
}

void score_keys(const KvSelectionCall& call, const PagedKv& kv, int32_t kv_head, int32_t seen,
                const std::vector<float>& queries, std::vector<float>& scores) {
  const auto num_queries = static_cast<size_t>(call.queries.dim(0) * group_of(call, kv));
  const int32_t* const table = call.block_table;
  std::vector<float> key(static_cast<size_t>(kv.head_dim));
  for (int32_t token = 0; token < seen; ++token) {
    read_key(kv, kv.key(table[token / kAttentionTile], token % kAttentionTile, kv_head),
             key.data());
    float* const to = scores.data() + static_cast<size_t>(token) * num_queries;
    std::fill_n(to, num_queries, 0.0f);
    for (size_t dim = 0; dim < key.size(); ++dim) {
      const float* const from = queries.data() + dim * num_queries;
      for (size_t query = 0; query < num_queries; ++query) to[query] += key[dim] * from[query];
    }
  }
}

void add_weights(const KvSelectionCall& call, int32_t group, const std::vector<float>& scores,
                 std::vector<float>& importance) {
  const auto num_queries = static_cast<size_t>(call.queries.dim(0) * group);
  std::fill_n(importance.begin(), call.tokens, 0.0f);
  for (size_t query = 0; query < num_queries; ++query) {
    const int32_t seen = call.weighed(static_cast<int64_t>(query) / group);
    const auto score = [&](int32_t token) {
      return scores[static_cast<size_t>(token) * num_queries + query];
    };
    float highest = score(0);
    for (int32_t token = 1; token < seen; ++token) highest = std::max(highest, score(token));
    double sum = 0.0;
    for (int32_t token = 0; token < seen; ++token) sum += std::exp(score(token) - highest);
    const auto share = static_cast<float>(1.0 / sum);
    for (int32_t token = 0; token < call.tokens; ++token) {
      importance[static_cast<size_t>(token)] += std::exp(score(token) - highest) * share;
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
    const int32_t from_block = table[token / kAttentionTile];
    const int32_t from_offset = token % kAttentionTile;
    const int32_t to_block = call.blocks[to / kAttentionTile];
    const int32_t to_offset = to % kAttentionTile;
    const std::byte* const key = kv.key(from_block, from_offset, kv_head);
    std::byte* const key_copy = kv.key(to_block, to_offset, kv_head);
    for (int64_t piece = 0; piece < kv.head_bytes(); piece += kKeyPieceBytes) {
      std::copy_n(key + piece * kKeyGroup, kKeyPieceBytes, key_copy + piece * kKeyGroup);
    }
    std::copy_n(kv.value(from_block, from_offset, kv_head), kv.head_bytes(),
                kv.value(to_block, to_offset, kv_head));
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
    grow(member.scores, static_cast<size_t>(most_weighed(call)) * queries);
    grow(member.queries, static_cast<size_t>(kv.head_dim) * queries);
    grow(member.importance, static_cast<size_t>(call.tokens));
    grow(member.pooled, static_cast<size_t>(call.tokens));
    grow(member.order, static_cast<size_t>(call.tokens));
  }
}

void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
               KvSelectionScratch* scratch) {
  KvSelectionScratch::Member& mem = scratch->members_[static_cast<size_t>(team.rank())];
  for (int32_t kv_head = team.rank(); kv_head < kv.num_kv_heads; kv_head += team.size()) {
    load_queries(call, kv, kv_head, mem.queries);
    score_keys(call, kv, kv_head, most_weighed(call), mem.queries, mem.scores);
    add_weights(call, group_of(call, kv), mem.scores, mem.importance);
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
