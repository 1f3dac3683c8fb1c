// The tile kernel for bf16 caches with products of bf16 (vdpbf16ps: 32 products per instruction,
// twice as many as in f32, and nothing to widen). Each file that has the instruction or emulates it
// includes its own copy (kernels/simd/vector.h).
//
// Queries are rounded to bf16 like the keys, and probabilities are rounded before they multiply
// values. The result is divided by the sum of the rounded probabilities, so that these add up to 1.
// Sums are f32. Scores and maxima are logarithms to base 2.
//
// A score sums four chains, over the dimensions 0 1, 2 3, 4 5 and 6 7 of every 8, by a fixed tree;
// a value is one chain over pairs of positions (0 1, 2 3, ... of the tile) in ascending order. The
// number of queries that share registers (QB) changes neither. The kernel interleaves the values of
// two positions in registers, while the products of the queries that share them are computed.
//
// `D` is Avx512 with dot_bf16() and to_bf16() (kernels/simd/avx512_bf16.h).
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/tile.h"
#include "kernels/simd/avx512.h"

namespace forerun {
namespace {

using Vec = simd::Avx512;

inline constexpr float kLog2E = 1.44269504f;
inline constexpr int kDotQueries = 4;  // 16 accumulators

inline Vec::F minus_infinity() { return Vec::set1(-__builtin_huge_valf()); }

// Returns 2^t, and 0 for minus infinity. The polynomial has degree 4 on [0, 1) and is exact at 0:
// its relative error is under 3e-6, a thousandth of the error of rounding to bf16.
inline Vec::F pow2(Vec::F t) {
  const Vec::F r = Vec::fraction(t);
  Vec::F p = Vec::set1(0.0134267188f);
  p = Vec::fma(p, r, Vec::set1(0.0522424187f));
  p = Vec::fma(p, r, Vec::set1(0.241280231f));
  p = Vec::fma(p, r, Vec::set1(0.693044842f));
  p = Vec::fma(p, r, Vec::set1(1.0f));
  return Vec::scale_by_pow2(p, t);
}

// Computes the scores of QB queries against positions `first` to `last`, 16 at a time. With kAhead,
// prefetches as many bytes of the next tile's keys as it reads, in memory order.
template <class D, int QB, bool kAhead>
void dot_scores(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last) {
  constexpr int kLoads = 4;  // each loads 4 positions
  const std::byte* queries[QB];
  for (int query = 0; query < QB; ++query) queries[query] = tile.queries[query_begin + query];
  const Vec::F scale = Vec::set1(tile.scale * kLog2E);
  const std::byte* next = tile.keys[0] + tile.ahead;
  for (int32_t begin = first / 16 * 16; begin <= last; begin += 16) {
    const std::byte* keys[kLoads];
    for (int load = 0; load < kLoads; ++load) keys[load] = tile.keys[begin / kKeyGroup + load];
    Vec::F sums[QB][kLoads];
    for (int query = 0; query < QB; ++query) {
      for (int load = 0; load < kLoads; ++load) sums[query][load] = Vec::zero();
    }
    for (int64_t at = 0; at < tile.padded_dim * 2; at += kKeyPieceBytes) {
      Vec::I q[QB];
      for (int query = 0; query < QB; ++query) q[query] = Vec::repeat4_int(queries[query] + at);
#pragma GCC unroll 4
      for (int load = 0; load < kLoads; ++load) {
        const std::byte* const key = keys[load] + at * kKeyGroup;
        const Vec::I k = Vec::load_int(key);
        if constexpr (kAhead) simd::prefetch_l2(next + 64 * load);
#pragma GCC unroll 4
        for (int query = 0; query < QB; ++query) {
          sums[query][load] = D::dot_bf16(sums[query][load], k, q[query]);
        }
      }
      next += 64 * kLoads;
    }
    for (int query = 0; query < QB; ++query) {
      Vec::store(tile.scores + (query_begin + query) * kAttentionTile + begin,
                 Vec::mul(Vec::sum_fours(sums[query]), scale));
    }
  }
}

// Raises a state's maximum to `maximum` if that is higher; returns the resulting maximum.
inline float raise_pow2_maximum(float* state, int64_t padded_dim, float maximum) {
  if (!(maximum > state[padded_dim])) return state[padded_dim];
  const Vec::F scale = pow2(Vec::set1(state[padded_dim] - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += 16) {
    Vec::store(state + dim, Vec::mul(Vec::load(state + dim), scale));
  }
  state[padded_dim] = maximum;
  state[padded_dim + 1] *= Vec::first_lane(scale);
  return maximum;
}

// Turns a query's scores into probabilities relative to its maximum so far, bf16 [64] in place;
// invisible positions get 0.
template <class D>
void dot_probs(const AttentionTile& tile, int32_t query) {
  float* const scores = tile.scores + query * kAttentionTile;
  float* const state = tile.states[query];
  const uint64_t seen = (~uint64_t{0} << tile.first[query]) &
                        (~uint64_t{0} >> (kAttentionTile - 1 - tile.last[query]));
  Vec::F s[4];
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    s[part] =
        Vec::load_or(Vec::mask_of_bits(seen >> (16 * part)), scores + 16 * part, minus_infinity());
  }
  const Vec::F highest = Vec::max(Vec::max(s[0], s[1]), Vec::max(s[2], s[3]));
  const Vec::F maximum =
      Vec::set1(raise_pow2_maximum(state, tile.padded_dim, Vec::max_lane(highest)));
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) s[part] = pow2(Vec::sub(s[part], maximum));
  const Vec::I low = D::to_bf16(s[0], s[1]);
  const Vec::I high = D::to_bf16(s[2], s[3]);
  Vec::store_int(scores, low);
  Vec::store_int(scores + 16, high);
  const Vec::I ones = Vec::set1_int(0x3f803f80);
  const Vec::F sum = D::dot_bf16(D::dot_bf16(Vec::zero(), low, ones), high, ones);
  state[tile.padded_dim + 1] += Vec::sum_lanes(sum);
}

enum class Seen { kBoth, kEven, kOdd };  // positions of a pair

// Adds `num_pairs` pairs of positions from `pair` on to the states of QB queries, for `kLoads`
// loads of 32 values from dimension `dim` on. kAhead as in dot_scores().
template <class D, int QB, int kLoads, Seen kSeen, bool kAhead>
void add_pairs(const AttentionTile& tile, int32_t query_begin, int32_t pair, int32_t num_pairs,
               int64_t dim) {
  float* const* states = tile.states + query_begin;
  const float* const probs = tile.scores + query_begin * kAttentionTile;
  Vec::F sums[QB][2 * kLoads];
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < 2 * kLoads; ++vec) {
      sums[query][vec] = Vec::load(states[query] + dim + 16 * vec);
    }
  }
  const std::byte* next = nullptr;
  if constexpr (kAhead) next = tile.values[2 * pair] + tile.ahead + dim * kAttentionTile * 2;
  for (const int32_t end = pair + num_pairs; pair < end; ++pair) {
    Vec::I v[2 * kLoads];
#pragma GCC unroll 2
    for (int load = 0; load < kLoads; ++load) {
      Vec::I even = Vec::zero_int();
      Vec::I odd = Vec::zero_int();
      const int64_t at = 2 * dim + 64 * load;
      if constexpr (kSeen != Seen::kOdd) even = Vec::load_int(tile.values[2 * pair] + at);
      if constexpr (kSeen != Seen::kEven) odd = Vec::load_int(tile.values[2 * pair + 1] + at);
      if constexpr (kAhead) {
        simd::prefetch_l2(next);
        simd::prefetch_l2(next + 64);
        next += 128;
      }
      v[2 * load] = Vec::interleave_lower_halves(even, odd);
      v[2 * load + 1] = Vec::interleave_upper_halves(even, odd);
    }
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      int32_t two;
      __builtin_memcpy(
          &two, reinterpret_cast<const std::byte*>(probs + query * kAttentionTile) + 4 * pair, 4);
      const Vec::I p = Vec::set1_int(two);
#pragma GCC unroll 4
      for (int vec = 0; vec < 2 * kLoads; ++vec) {
        sums[query][vec] = D::dot_bf16(sums[query][vec], v[vec], p);
      }
    }
  }
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < 2 * kLoads; ++vec) {
      Vec::store(states[query] + dim + 16 * vec, sums[query][vec]);
    }
  }
}

template <class D, int QB, Seen kSeen, bool kAhead>
void add_pairs_all_dims(const AttentionTile& tile, int32_t query_begin, int32_t pair,
                        int32_t num_pairs) {
  if (num_pairs <= 0) return;
  int64_t dim = 0;
  for (; dim + 64 <= tile.padded_dim; dim += 64) {
    add_pairs<D, QB, 2, kSeen, kAhead>(tile, query_begin, pair, num_pairs, dim);
  }
  if (dim < tile.padded_dim) {
    add_pairs<D, QB, 1, kSeen, kAhead>(tile, query_begin, pair, num_pairs, dim);
  }
}

// Adds the values of one query's offsets [begin, end).
template <class D>
void add_own_values(const AttentionTile& tile, int32_t query, int32_t begin, int32_t end) {
  if (begin >= end) return;
  if (begin % 2 != 0) {
    add_pairs_all_dims<D, 1, Seen::kOdd, false>(tile, query, begin / 2, 1);
    ++begin;
  }
  add_pairs_all_dims<D, 1, Seen::kBoth, false>(tile, query, begin / 2, end / 2 - begin / 2);
  if (end % 2 != 0 && end > begin) {
    add_pairs_all_dims<D, 1, Seen::kEven, false>(tile, query, end / 2, 1);
  }
}

// Adds each query's positions in ascending order and no others: a product with 0 would let a later
// row's infinity into an earlier row.
template <class D, int QB, bool kAhead>
void dot_values(const AttentionTile& tile, int32_t query_begin) {
  int32_t first = 0;  // pairs with two positions that all queries attend to
  int32_t end = kAttentionTile / 2;
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    const int32_t own_first = (tile.first[query] + 1) / 2;
    const int32_t own_end = (tile.last[query] + 1) / 2;
    if (own_first > first) first = own_first;
    if (own_end < end) end = own_end;
  }
  if (first >= end) {
    for (int32_t query = query_begin; query < query_begin + QB; ++query) {
      add_own_values<D>(tile, query, tile.first[query], tile.last[query] + 1);
    }
    return;
  }
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_own_values<D>(tile, query, tile.first[query], 2 * first);
  }
  add_pairs_all_dims<D, QB, Seen::kBoth, kAhead>(tile, query_begin, first, end - first);
  for (int32_t query = query_begin; query < query_begin + QB; ++query) {
    add_own_values<D>(tile, query, 2 * end, tile.last[query] + 1);
  }
}

template <class D, int QB, bool kAhead>
void dot_block(const AttentionTile& tile, int32_t query_begin) {
  int32_t first = tile.first[query_begin];
  int32_t last = tile.last[query_begin];
  for (int32_t query = query_begin + 1; query < query_begin + QB; ++query) {
    if (tile.first[query] < first) first = tile.first[query];
    if (tile.last[query] > last) last = tile.last[query];
  }
  dot_scores<D, QB, kAhead>(tile, query_begin, first, last);
  for (int32_t query = query_begin; query < query_begin + QB; ++query) dot_probs<D>(tile, query);
  dot_values<D, QB, kAhead>(tile, query_begin);
}

// Adds the values of as many queries as possible in groups of QB; the first group prefetches the
// next tile for the others. Returns the first remaining query.
template <class D, int QB>
int32_t dot_blocks(const AttentionTile& tile, int32_t query) {
  if (query + QB <= tile.num_queries && query == 0 && tile.ahead != 0) {
    dot_block<D, QB, true>(tile, query);
    query += QB;
  }
  for (; query + QB <= tile.num_queries; query += QB) dot_block<D, QB, false>(tile, query);
  return query;
}

template <class D>
void dot_tile(const AttentionTile& tile) {
  int32_t query = dot_blocks<D, kDotQueries>(tile, 0);
  query = dot_blocks<D, 2>(tile, query);
  dot_blocks<D, 1>(tile, query);
}

template <class D>
void dot_score_tile(const AttentionTile& tile) {
  constexpr int32_t kLast = kAttentionTile - 1;
  int32_t query = 0;
  if (tile.ahead != 0 && tile.num_queries >= kDotQueries) {
    dot_scores<D, kDotQueries, true>(tile, query, 0, kLast);
    query += kDotQueries;
  }
  for (; query + kDotQueries <= tile.num_queries; query += kDotQueries) {
    dot_scores<D, kDotQueries, false>(tile, query, 0, kLast);
  }
  for (; query < tile.num_queries; ++query) dot_scores<D, 1, false>(tile, query, 0, kLast);
}

inline float dot_powers(float* scores, int64_t count, float maximum) {
  const Vec::F highest = Vec::set1(maximum);
  Vec::F sums[4];
  for (Vec::F& sum : sums) sum = Vec::zero();
  for (int64_t at = 0; at < count; at += 64) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      float* const here = scores + at + 16 * part;
      const Vec::F p = pow2(Vec::sub(Vec::load(here), highest));
      Vec::store(here, p);
      sums[part] = Vec::add(sums[part], p);
    }
  }
  return Vec::sum_lanes(Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])));
}

template <class D>
void load_bf16_query(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to) {
  for (int64_t dim = 0; dim < padded_dim; dim += 32) {
    Vec::F halves[2];
    for (int half = 0; half < 2; ++half) {
      const int64_t at = dim + 16 * half;
      halves[half] = Vec::load_or_zero(Vec::first_lanes(head_dim - at), query + at);
    }
    Vec::store_int(to + 2 * dim, D::to_bf16(halves[0], halves[1]));
  }
}

inline void merge_pow2_states(float* into, const float* from, int64_t padded_dim) {
  const float max_into = into[padded_dim];
  const float max_from = from[padded_dim];
  const float maximum = max_from > max_into ? max_from : max_into;
  const Vec::F scale_into = pow2(Vec::set1(max_into - maximum));
  const Vec::F scale_from = pow2(Vec::set1(max_from - maximum));
  const auto merge = [&](float* to, const float* other) {
    const Vec::F scaled = Vec::mul(Vec::load(to), scale_into);
    Vec::store(to, Vec::fma(Vec::load(other), scale_from, scaled));
  };
  for (int64_t dim = 0; dim < padded_dim; dim += 16) merge(into + dim, from + dim);
  merge(into + padded_dim, from + padded_dim);  // scales the sum; the maximum is set below
  into[padded_dim] = maximum;
}

// Divides a state by its sum. Every 32 values of a state lie in two vectors: dimensions 0 to 3 of
// every 8, then 4 to 7.
inline void finish_dot_state(const float* state, int64_t padded_dim, int64_t head_dim, float* out) {
  const Vec::F inverse = Vec::set1(1.0f / state[padded_dim + 1]);
  alignas(64) static constexpr int32_t kOrder[2][16] = {
      {0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23},
      {8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31}};
  const Vec::I order[2] = {Vec::load_int(kOrder[0]), Vec::load_int(kOrder[1])};
  for (int64_t dim = 0; dim < head_dim; dim += 32) {
    const Vec::F low = Vec::load(state + dim);
    const Vec::F high = Vec::load(state + dim + 16);
    for (int half = 0; half < 2; ++half) {
      const int64_t at = dim + 16 * half;
      const Vec::F values = Vec::permute2(low, order[half], high);
      Vec::store_where(Vec::first_lanes(head_dim - at), out + at, Vec::mul(values, inverse));
    }
  }
}

template <class D>
constexpr AttentionTypeKernels bf16_dot_kernels() {
  return {load_bf16_query<D>, dot_tile<D>, dot_score_tile<D>, dot_powers, merge_pow2_states,
          finish_dot_state,   kLog2E};
}

}  // namespace
}  // namespace forerun
