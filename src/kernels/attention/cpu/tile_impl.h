// The tile kernel, written once over a vector type (kernels/simd/vector.h). Only the files of the
// instruction sets include it; each has its own copy.
//
// A score sums four chains of multiply-adds over the head's dimensions by a fixed tree; a value is
// one chain over the tile's positions in ascending order. The number of queries (QB) and vectors
// that share registers changes neither.
//
// bf16 elements are widened two at a time: a 32-bit lane shifted left is the even element, masked
// it is the odd one. That takes one instruction per vector, at the price of a permuted order of
// dimensions in queries and states.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/tile.h"
#include "kernels/simd/vector.h"

namespace forerun {
namespace {

constexpr float kMinusInfinity = -__builtin_huge_valf();

// Returns e^t for t <= 0, and 0 below -87. The polynomial has degree 6 on [-ln2/2, ln2/2]: its
// relative error is under 2e-7.
template <class V>
typename V::F exp_nonpositive(typename V::F t) {
  using F = typename V::F;
  const F clamped = V::max(t, V::set1(-87.0f));
  const F magic = V::set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F shifted = V::fma(clamped, V::set1(1.44269504f), magic);
  const F n = V::sub(shifted, magic);
  F r = V::fma(n, V::set1(-0.693359375f), clamped);
  r = V::fma(n, V::set1(2.12194440e-4f), r);
  F p = V::set1(1.0f / 720.0f);
  p = V::fma(p, r, V::set1(1.0f / 120.0f));
  p = V::fma(p, r, V::set1(1.0f / 24.0f));
  p = V::fma(p, r, V::set1(1.0f / 6.0f));
  p = V::fma(p, r, V::set1(0.5f));
  p = V::fma(p, r, V::set1(1.0f));
  p = V::fma(p, r, V::set1(1.0f));
  const typename V::I exponent = V::template shift_left<23>(V::as_int(shifted));  // 2^n
  const F pow2 = V::as_float(V::add_int(exponent, V::set1_int(0x3f800000)));
  return V::zero_unless(V::not_less(t, V::set1(-87.0f)), V::mul(p, pow2));
}

// The number of vectors to which one load of V::kLanes 32-bit lanes unpacks.
template <class T>
constexpr int kVectorsPerLoad = sizeof(float) / sizeof(T);

template <class V>
void unpack(const float* from, typename V::F* to) {
  *to = V::load(from);
}
template <class V>
void unpack(const uint16_t* from, typename V::F* to) {
  const typename V::I pairs = V::load_int(from);
  to[0] = simd::even_bf16<V>(pairs);
  to[1] = simd::odd_bf16<V>(pairs);
}

// The number of queries that share registers; AVX-512 has 32 of them, other instruction sets 16.
template <class V>
constexpr int kMaxQueries = V::kLanes == 16 ? 4 : 2;

// Computes the scores of QB queries against the tile's positions, V::kLanes positions at a time.
template <class V, class T, int QB>
void tile_scores(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last) {
  using F = typename V::F;
  constexpr int kVectors = kVectorsPerLoad<T>;
  constexpr int kLoads = 4;  // each loads V::kLanes / 4 positions
  constexpr int kLoadBytes = V::kLanes * 4;
  constexpr int kLoadsPerGroup = 64 / kLoadBytes;
  const bool ahead = query_begin == 0 && tile.ahead != 0;
  const float* queries[QB];
  for (int query = 0; query < QB; ++query) {
    queries[query] = reinterpret_cast<const float*>(tile.queries[query_begin + query]);
  }
  for (int32_t begin = first / V::kLanes * V::kLanes; begin <= last; begin += V::kLanes) {
    const std::byte* keys[kLoads];
    for (int load = 0; load < kLoads; ++load) {
      keys[load] =
          tile.keys[begin / kKeyGroup + load / kLoadsPerGroup] + load % kLoadsPerGroup * kLoadBytes;
    }
    F sums[QB][kLoads];
    for (int query = 0; query < QB; ++query) {
      for (int load = 0; load < kLoads; ++load) sums[query][load] = V::zero();
    }
    for (int64_t dim = 0; dim < tile.padded_dim; dim += 4 * kVectors) {
      F q[QB][kVectors];
      for (int query = 0; query < QB; ++query) {
        for (int vec = 0; vec < kVectors; ++vec)
          q[query][vec] = V::repeat4(queries[query] + dim + 4 * vec);
      }
#pragma GCC unroll 4
      for (int load = 0; load < kLoads; ++load) {
        F k[kVectors];
        unpack<V>(reinterpret_cast<const T*>(keys[load]), k);
        if (ahead) simd::prefetch_l2(keys[load] + tile.ahead);
        keys[load] += kKeyGroup * kKeyPieceBytes;
#pragma GCC unroll 4
        for (int query = 0; query < QB; ++query) {
          for (int vec = 0; vec < kVectors; ++vec) {
            sums[query][load] = V::fma(q[query][vec], k[vec], sums[query][load]);
          }
        }
      }
    }
    for (int query = 0; query < QB; ++query) {
      V::store(tile.scores + (query_begin + query) * kAttentionTile + begin,
               V::mul(V::sum_fours(sums[query]), V::set1(tile.scale)));
    }
  }
}

// Raises a query's maximum to `maximum` if that is higher; returns the resulting maximum.
template <class V>
float raise_maximum(float* state, int64_t padded_dim, float maximum) {
  using F = typename V::F;
  if (!(maximum > state[padded_dim])) return state[padded_dim];
  const F scale = exp_nonpositive<V>(V::set1(state[padded_dim] - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += V::kLanes) {
    V::store(state + dim, V::mul(V::load(state + dim), scale));
  }
  state[padded_dim] = maximum;
  state[padded_dim + 1] *= V::first_lane(scale);
  return maximum;
}

// Turns the scores of QB queries into exponentials relative to their maxima so far; invisible
// positions get 0. The queries pass each stage side by side, since a single one would mostly wait
// for its own results.
template <class V, int QB>
void tile_softmax(const AttentionTile& tile, int32_t query_begin) {
  using F = typename V::F;
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
    F highest = V::load(scores + query * kAttentionTile);
    for (int32_t offset = V::kLanes; offset < kAttentionTile; offset += V::kLanes) {
      highest = V::max(highest, V::load(scores + query * kAttentionTile + offset));
    }
    maximum[query] = V::max_lane(highest);
  }
  for (int query = 0; query < QB; ++query) {
    maximum[query] = raise_maximum<V>(states[query], tile.padded_dim, maximum[query]);
  }
  F sum[QB];
  for (int query = 0; query < QB; ++query) sum[query] = V::zero();
  for (int32_t offset = 0; offset < kAttentionTile; offset += V::kLanes) {
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      float* at = scores + query * kAttentionTile + offset;
      const F p = exp_nonpositive<V>(V::sub(V::load(at), V::set1(maximum[query])));
      V::store(at, p);
      sum[query] = V::add(sum[query], p);
    }
  }
  for (int query = 0; query < QB; ++query) {
    states[query][tile.padded_dim + 1] += V::sum_lanes(sum[query]);
  }
}

// Adds positions [first, last] to the states of QB queries, for `kLoads` loads of values from
// dimension `dim` on.
template <class V, class T, int QB, int kLoads>
void add_values(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last,
                int64_t dim) {
  using F = typename V::F;
  constexpr int kVectors = kVectorsPerLoad<T>;
  float* const* states = tile.states + query_begin;
  const float* scores = tile.scores + query_begin * kAttentionTile;
  const bool ahead = query_begin == 0 && tile.ahead != 0;
  F sums[QB][kLoads * kVectors];
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < kLoads * kVectors; ++vec) {
      sums[query][vec] = V::load(states[query] + dim + vec * V::kLanes);
    }
  }
  for (int32_t offset = first; offset <= last; ++offset) {
    const T* value = reinterpret_cast<const T*>(tile.values[offset]) + dim;
    F v[kLoads * kVectors];
    for (int load = 0; load < kLoads; ++load) {
      const T* const from = value + load * V::kLanes * kVectors;
      unpack<V>(from, v + load * kVectors);
      if (ahead) simd::prefetch_l2(reinterpret_cast<const std::byte*>(from) + tile.ahead);
    }
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      const F p = V::set1(scores[query * kAttentionTile + offset]);
#pragma GCC unroll 4
      for (int vec = 0; vec < kLoads * kVectors; ++vec) {
        sums[query][vec] = V::fma(p, v[vec], sums[query][vec]);
      }
    }
  }
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < kLoads * kVectors; ++vec) {
      V::store(states[query] + dim + vec * V::kLanes, sums[query][vec]);
    }
  }
}

template <class V, class T, int QB>
void add_values_all_dims(const AttentionTile& tile, int32_t query_begin, int32_t first,
                         int32_t last) {
  if (first > last) return;
  constexpr int64_t kLoadDims = V::kLanes * kVectorsPerLoad<T>;
  constexpr int kLoads = 4 / kVectorsPerLoad<T>;
  int64_t dim = 0;
  for (; dim + kLoads * kLoadDims <= tile.padded_dim; dim += kLoads * kLoadDims) {
    add_values<V, T, QB, kLoads>(tile, query_begin, first, last, dim);
  }
  for (; dim < tile.padded_dim; dim += kLoadDims) {
    add_values<V, T, QB, 1>(tile, query_begin, first, last, dim);
  }
}

// Adds the weighted values of QB queries: each query's positions in ascending order and no others
// (a masked product with 0 would let a later row's infinity into an earlier row).
template <class V, class T, int QB>
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
      add_values_all_dims<V, T, 1>(tile, query, tile.first[query], tile.last[query]);
    }
    return;
  }
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_values_all_dims<V, T, 1>(tile, query, tile.first[query], common_first - 1);
  }
  add_values_all_dims<V, T, QB>(tile, query_begin, common_first, common_last);
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_values_all_dims<V, T, 1>(tile, query, common_last + 1, tile.last[query]);
  }
}

template <class V>
void merge_states(float* into, const float* from, int64_t padded_dim) {
  using F = typename V::F;
  const float max_into = into[padded_dim];
  const float max_from = from[padded_dim];
  const float maximum = max_from > max_into ? max_from : max_into;
  const F scale_into = exp_nonpositive<V>(V::set1(max_into - maximum));
  const F scale_from = exp_nonpositive<V>(V::set1(max_from - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += V::kLanes) {
    const F scaled = V::mul(V::load(into + dim), scale_into);
    V::store(into + dim, V::fma(V::load(from + dim), scale_from, scaled));
  }
  const F sum = V::mul(V::set1(into[padded_dim + 1]), scale_into);
  into[padded_dim] = maximum;
  into[padded_dim + 1] = V::first_lane(V::fma(V::set1(from[padded_dim + 1]), scale_from, sum));
}

template <class V, class T, int QB>
void tile_block(const AttentionTile& tile, int32_t query_begin) {
  int32_t first = tile.first[query_begin];
  int32_t last = tile.last[query_begin];
  for (int query = 1; query < QB; ++query) {
    if (tile.first[query_begin + query] < first) first = tile.first[query_begin + query];
    if (tile.last[query_begin + query] > last) last = tile.last[query_begin + query];
  }
  tile_scores<V, T, QB>(tile, query_begin, first, last);
  tile_softmax<V, QB>(tile, query_begin);
  tile_values<V, T, QB>(tile, query_begin);
}

template <class V, class T>
void attend_tile(const AttentionTile& tile) {
  int32_t query = 0;
  if constexpr (kMaxQueries<V> >= 4) {
    for (; query + 4 <= tile.num_queries; query += 4) tile_block<V, T, 4>(tile, query);
  }
  for (; query + 2 <= tile.num_queries; query += 2) tile_block<V, T, 2>(tile, query);
  for (; query < tile.num_queries; ++query) tile_block<V, T, 1>(tile, query);
}

template <class V, class T>
void score_tile(const AttentionTile& tile) {
  int32_t query = 0;
  for (; query + kMaxQueries<V> <= tile.num_queries; query += kMaxQueries<V>) {
    tile_scores<V, T, kMaxQueries<V>>(tile, query, 0, kAttentionTile - 1);
  }
  for (; query < tile.num_queries; ++query) {
    tile_scores<V, T, 1>(tile, query, 0, kAttentionTile - 1);
  }
}

template <class V>
float powers_of(float* scores, int64_t count, float maximum) {
  using F = typename V::F;
  constexpr int kChains = 4;
  F sums[kChains];
  for (F& sum : sums) sum = V::zero();
  for (int64_t at = 0; at < count; at += kChains * V::kLanes) {
    for (int chain = 0; chain < kChains; ++chain) {
      float* const here = scores + at + chain * V::kLanes;
      const F p = exp_nonpositive<V>(V::sub(V::load(here), V::set1(maximum)));
      V::store(here, p);
      sums[chain] = V::add(sums[chain], p);
    }
  }
  return V::sum_lanes(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
}

// Loads a query. For a bf16 cache it stores every 8 dimensions in the order 0 2 4 6 1 3 5 7, in
// which the keys unpack.
template <class T>
void load_query(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to) {
  float* const out = reinterpret_cast<float*>(to);
  for (int64_t dim = 0; dim < padded_dim; ++dim) {
    const int64_t at = sizeof(T) == sizeof(float) ? dim : dim / 8 * 8 + dim % 2 * 4 + dim % 8 / 2;
    out[at] = dim < head_dim ? query[dim] : 0.0f;
  }
}

template <class V, class T>
void finish_state(const float* state, int64_t padded_dim, int64_t head_dim, float* out) {
  constexpr int64_t kVectors = kVectorsPerLoad<T>;
  constexpr int64_t kLoadDims = V::kLanes * kVectors;
  const float inverse = 1.0f / state[padded_dim + 1];
  for (int64_t begin = 0; begin < head_dim; begin += kLoadDims) {
    const int64_t count = head_dim - begin < kLoadDims ? head_dim - begin : kLoadDims;
    for (int64_t dim = 0; dim < count; ++dim) {
      out[begin + dim] = state[begin + dim % kVectors * V::kLanes + dim / kVectors] * inverse;
    }
  }
}

template <class V, class T>
constexpr AttentionTypeKernels type_kernels() {
  return {load_query<T>, attend_tile<V, T>, score_tile<V, T>,
          powers_of<V>,  merge_states<V>,   finish_state<V, T>,
          1.0f};
}

template <class V>
constexpr AttentionKernels make_kernels() {
  return {type_kernels<V, float>(), type_kernels<V, uint16_t>()};
}

}  // namespace
}  // namespace forerun
