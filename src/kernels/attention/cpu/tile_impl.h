// The tile kernel, written once over a SIMD policy. Included by the per-instruction-set files only,
// each with a policy type of its own in an anonymous namespace, so that no instantiation is shared
// between files compiled for different processors. For the same reason nothing of the standard
// library is called here.
//
// A score is four chains of multiply-adds over the head's dimensions and one fixed tree over them;
// a value is one chain over the tile's positions in ascending order. The number of queries (QB) and
// vectors that share registers changes neither.
//
// bf16 elements are widened two at a time: a 32-bit lane shifted left is the even element, masked
// it is the odd one. That takes one instruction per vector, at the price of a permuted order of
// dimensions in queries and states.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/tile.h"

namespace forerun {
namespace {

constexpr float kMinusInfinity = -__builtin_huge_valf();

// e^t for t <= 0; 0 below -87. Degree 6 on [-ln2/2, ln2/2]: relative error under 2e-7.
template <class S>
typename S::V exp_nonpositive(typename S::V t) {
  using V = typename S::V;
  const V clamped = S::max(t, S::set(-87.0f));
  const V magic = S::set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = S::fma(clamped, S::set(1.44269504f), magic);
  const V n = S::sub(shifted, magic);
  V r = S::fma(n, S::set(-0.693359375f), clamped);
  r = S::fma(n, S::set(2.12194440e-4f), r);
  V p = S::set(1.0f / 720.0f);
  p = S::fma(p, r, S::set(1.0f / 120.0f));
  p = S::fma(p, r, S::set(1.0f / 24.0f));
  p = S::fma(p, r, S::set(1.0f / 6.0f));
  p = S::fma(p, r, S::set(0.5f));
  p = S::fma(p, r, S::set(1.0f));
  p = S::fma(p, r, S::set(1.0f));
  return S::zero_where_below(S::mul(p, S::pow2_of_shifted(shifted)), t, S::set(-87.0f));
}

inline void prefetch(const std::byte* at) { __builtin_prefetch(at, 0, 2); }

// The number of vectors that one load of S::kLanes 32-bit lanes unpacks to.
template <class T>
constexpr int kVectorsPerLoad = sizeof(float) / sizeof(T);

// Scores of QB queries against the tile's positions, S::kLanes positions at a time.
template <class S, class T, int QB>
void tile_scores(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last) {
  using V = typename S::V;
  constexpr int kVectors = kVectorsPerLoad<T>;
  constexpr int kLoads = 4;  // of S::kLanes / 4 positions each
  constexpr int kLoadBytes = S::kLanes * 4;
  constexpr int kLoadsPerGroup = 64 / kLoadBytes;
  const bool ahead = query_begin == 0 && tile.ahead != 0;
  const float* queries[QB];
  for (int query = 0; query < QB; ++query) {
    queries[query] = reinterpret_cast<const float*>(tile.queries[query_begin + query]);
  }
  for (int32_t begin = first / S::kLanes * S::kLanes; begin <= last; begin += S::kLanes) {
    const std::byte* keys[kLoads];
    for (int load = 0; load < kLoads; ++load) {
      keys[load] =
          tile.keys[begin / kKeyGroup + load / kLoadsPerGroup] + load % kLoadsPerGroup * kLoadBytes;
    }
    V sums[QB][kLoads];
    for (int query = 0; query < QB; ++query) {
      for (int load = 0; load < kLoads; ++load) sums[query][load] = S::set(0.0f);
    }
    for (int64_t dim = 0; dim < tile.padded_dim; dim += 4 * kVectors) {
      V q[QB][kVectors];
      for (int query = 0; query < QB; ++query) {
        for (int vec = 0; vec < kVectors; ++vec)
          q[query][vec] = S::repeat4(queries[query] + dim + 4 * vec);
      }
#pragma GCC unroll 4
      for (int load = 0; load < kLoads; ++load) {
        V k[kVectors];
        S::unpack(reinterpret_cast<const T*>(keys[load]), k);
        if (ahead) prefetch(keys[load] + tile.ahead);
        keys[load] += kKeyGroup * kKeyPieceBytes;
#pragma GCC unroll 4
        for (int query = 0; query < QB; ++query) {
          for (int vec = 0; vec < kVectors; ++vec) {
            sums[query][load] = S::fma(q[query][vec], k[vec], sums[query][load]);
          }
        }
      }
    }
    for (int query = 0; query < QB; ++query) {
      S::store(tile.scores + (query_begin + query) * kAttentionTile + begin,
               S::mul(S::sum_fours(sums[query]), S::set(tile.scale)));
    }
  }
}

// Raises a query's maximum to `maximum` where that is higher; returns the one that holds.
template <class S>
float raise_maximum(float* state, int64_t padded_dim, float maximum) {
  using V = typename S::V;
  if (!(maximum > state[padded_dim])) return state[padded_dim];
  const V scale = exp_nonpositive<S>(S::set(state[padded_dim] - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += S::kLanes) {
    S::store(state + dim, S::mul(S::load(state + dim), scale));
  }
  state[padded_dim] = maximum;
  state[padded_dim + 1] *= S::first_lane(scale);
  return maximum;
}

// Turns the scores of QB queries into exponentials relative to their maxima so far; unseen
// positions get 0. The queries go through each stage side by side, since one alone would wait for
// its own results most of the time.
template <class S, int QB>
void tile_softmax(const AttentionTile& tile, int32_t query_begin) {
  using V = typename S::V;
  float* scores = tile.scores + query_begin * kAttentionTile;
  float* const* states = tile.states + query_begin;
  for (int query = 0; query < QB; ++query) {
    float* of_query = scores + query * kAttentionTile;
    const int32_t first = tile.first[query_begin + query];
    const int32_t last = tile.last[query_begin + query];
    for (int32_t offset = 0; offset < first; ++offset) of_query[offset] = kMinusInfinity;
    for (int32_t offset = last + 1; offset < kAttentionTile; ++offset) {
      of_query[offset] = kMinusInfinity;
    }
  }
  float maximum[QB];
  for (int query = 0; query < QB; ++query) {
    V highest = S::load(scores + query * kAttentionTile);
    for (int32_t offset = S::kLanes; offset < kAttentionTile; offset += S::kLanes) {
      highest = S::max(highest, S::load(scores + query * kAttentionTile + offset));
    }
    maximum[query] = S::max_lane(highest);
  }
  for (int query = 0; query < QB; ++query) {
    maximum[query] = raise_maximum<S>(states[query], tile.padded_dim, maximum[query]);
  }
  V sum[QB];
  for (int query = 0; query < QB; ++query) sum[query] = S::set(0.0f);
  for (int32_t offset = 0; offset < kAttentionTile; offset += S::kLanes) {
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      float* at = scores + query * kAttentionTile + offset;
      const V p = exp_nonpositive<S>(S::sub(S::load(at), S::set(maximum[query])));
      S::store(at, p);
      sum[query] = S::add(sum[query], p);
    }
  }
  for (int query = 0; query < QB; ++query) {
    states[query][tile.padded_dim + 1] += S::sum_lanes(sum[query]);
  }
}

// Adds positions [first, last] to the states of QB queries, for `kLoads` loads of values from
// dimension `dim` on.
template <class S, class T, int QB, int kLoads>
void add_values(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last,
                int64_t dim) {
  using V = typename S::V;
  constexpr int kVectors = kVectorsPerLoad<T>;
  float* const* states = tile.states + query_begin;
  const float* scores = tile.scores + query_begin * kAttentionTile;
  const bool ahead = query_begin == 0 && tile.ahead != 0;
  V sums[QB][kLoads * kVectors];
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < kLoads * kVectors; ++vec) {
      sums[query][vec] = S::load(states[query] + dim + vec * S::kLanes);
    }
  }
  for (int32_t offset = first; offset <= last; ++offset) {
    const T* value = reinterpret_cast<const T*>(tile.values[offset]) + dim;
    V v[kLoads * kVectors];
    for (int load = 0; load < kLoads; ++load) {
      const T* const from = value + load * S::kLanes * kVectors;
      S::unpack(from, v + load * kVectors);
      if (ahead) prefetch(reinterpret_cast<const std::byte*>(from) + tile.ahead);
    }
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      const V p = S::set(scores[query * kAttentionTile + offset]);
#pragma GCC unroll 4
      for (int vec = 0; vec < kLoads * kVectors; ++vec) {
        sums[query][vec] = S::fma(p, v[vec], sums[query][vec]);
      }
    }
  }
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < kLoads * kVectors; ++vec) {
      S::store(states[query] + dim + vec * S::kLanes, sums[query][vec]);
    }
  }
}

template <class S, class T, int QB>
void add_values_all_dims(const AttentionTile& tile, int32_t query_begin, int32_t first,
                         int32_t last) {
  if (first > last) return;
  constexpr int64_t kLoadDims = S::kLanes * kVectorsPerLoad<T>;
  constexpr int kLoads = 4 / kVectorsPerLoad<T>;
  int64_t dim = 0;
  for (; dim + kLoads * kLoadDims <= tile.padded_dim; dim += kLoads * kLoadDims) {
    add_values<S, T, QB, kLoads>(tile, query_begin, first, last, dim);
  }
  for (; dim < tile.padded_dim; dim += kLoadDims) {
    add_values<S, T, QB, 1>(tile, query_begin, first, last, dim);
  }
}

// Weighted values of QB queries: each query's positions in ascending order and no others (a masked
// product with 0 would let a later row's infinity into an earlier row).
template <class S, class T, int QB>
void tile_values(const AttentionTile& tile, int32_t query_begin) {
  int32_t common_first = tile.first[query_begin];
  int32_t common_last = tile.last[query_begin];
  for (int query = 0; query < QB; ++query) {
    const int32_t first = tile.first[query_begin + query];
    const int32_t last = tile.last[query_begin + query];
    if (first > common_first) common_first = first;
    if (last < common_last) common_last = last;
  }
  if (common_first > common_last) {
    for (int32_t query = query_begin; query < query_begin + QB; ++query) {
      add_values_all_dims<S, T, 1>(tile, query, tile.first[query], tile.last[query]);
    }
    return;
  }
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_values_all_dims<S, T, 1>(tile, query, tile.first[query], common_first - 1);
  }
  add_values_all_dims<S, T, QB>(tile, query_begin, common_first, common_last);
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_values_all_dims<S, T, 1>(tile, query, common_last + 1, tile.last[query]);
  }
}

template <class S>
void merge_states(float* into, const float* from, int64_t padded_dim) {
  using V = typename S::V;
  const float max_into = into[padded_dim];
  const float max_from = from[padded_dim];
  const float maximum = max_from > max_into ? max_from : max_into;
  const V scale_into = exp_nonpositive<S>(S::set(max_into - maximum));
  const V scale_from = exp_nonpositive<S>(S::set(max_from - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += S::kLanes) {
    const V scaled = S::mul(S::load(into + dim), scale_into);
    S::store(into + dim, S::fma(S::load(from + dim), scale_from, scaled));
  }
  const V sum = S::mul(S::set(into[padded_dim + 1]), scale_into);
  into[padded_dim] = maximum;
  into[padded_dim + 1] = S::first_lane(S::fma(S::set(from[padded_dim + 1]), scale_from, sum));
}

template <class S, class T, int QB>
void tile_block(const AttentionTile& tile, int32_t query_begin) {
  int32_t first = tile.first[query_begin];
  int32_t last = tile.last[query_begin];
  for (int query = 1; query < QB; ++query) {
    if (tile.first[query_begin + query] < first) first = tile.first[query_begin + query];
    if (tile.last[query_begin + query] > last) last = tile.last[query_begin + query];
  }
  tile_scores<S, T, QB>(tile, query_begin, first, last);
  tile_softmax<S, QB>(tile, query_begin);
  tile_values<S, T, QB>(tile, query_begin);
}

template <class S, class T>
void attend_tile(const AttentionTile& tile) {
  int32_t query = 0;
  if constexpr (S::kMaxQueries >= 4) {
    for (; query + 4 <= tile.num_queries; query += 4) tile_block<S, T, 4>(tile, query);
  }
  for (; query + 2 <= tile.num_queries; query += 2) tile_block<S, T, 2>(tile, query);
  for (; query < tile.num_queries; ++query) tile_block<S, T, 1>(tile, query);
}

template <class S, class T>
void score_tile(const AttentionTile& tile) {
  int32_t query = 0;
  for (; query + S::kMaxQueries <= tile.num_queries; query += S::kMaxQueries) {
    tile_scores<S, T, S::kMaxQueries>(tile, query, 0, kAttentionTile - 1);
  }
  for (; query < tile.num_queries; ++query) {
    tile_scores<S, T, 1>(tile, query, 0, kAttentionTile - 1);
  }
}

template <class S>
float powers_of(float* scores, int64_t count, float maximum) {
  using V = typename S::V;
  constexpr int kChains = 4;
  V sums[kChains];
  for (V& sum : sums) sum = S::set(0.0f);
  for (int64_t at = 0; at < count; at += kChains * S::kLanes) {
    for (int chain = 0; chain < kChains; ++chain) {
      float* const here = scores + at + chain * S::kLanes;
      const V p = exp_nonpositive<S>(S::sub(S::load(here), S::set(maximum)));
      S::store(here, p);
      sums[chain] = S::add(sums[chain], p);
    }
  }
  return S::sum_lanes(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
}

// For a bf16 cache it stores every 8 dimensions in the order 0 2 4 6 1 3 5 7, in which the keys
// unpack.
template <class T>
void load_query(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to) {
  float* const out = reinterpret_cast<float*>(to);
  for (int64_t dim = 0; dim < padded_dim; ++dim) {
    const int64_t at = sizeof(T) == sizeof(float) ? dim : dim / 8 * 8 + dim % 2 * 4 + dim % 8 / 2;
    out[at] = dim < head_dim ? query[dim] : 0.0f;
  }
}

template <class S, class T>
void finish_state(const float* state, int64_t padded_dim, int64_t head_dim, float* out) {
  constexpr int64_t kVectors = kVectorsPerLoad<T>;
  constexpr int64_t kLoadDims = S::kLanes * kVectors;
  const float inverse = 1.0f / state[padded_dim + 1];
  for (int64_t begin = 0; begin < head_dim; begin += kLoadDims) {
    const int64_t count = head_dim - begin < kLoadDims ? head_dim - begin : kLoadDims;
    for (int64_t dim = 0; dim < count; ++dim) {
      out[begin + dim] = state[begin + dim % kVectors * S::kLanes + dim / kVectors] * inverse;
    }
  }
}

template <class S, class T>
constexpr AttentionTypeKernels type_kernels() {
  return {load_query<T>, attend_tile<S, T>, score_tile<S, T>,
          powers_of<S>,  merge_states<S>,   finish_state<S, T>,
          1.0f};
}

template <class S>
constexpr AttentionKernels make_kernels() {
  return {type_kernels<S, float>(), type_kernels<S, uint16_t>()};
}

}  // namespace
}  // namespace forerun
