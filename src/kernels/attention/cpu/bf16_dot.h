// The tile kernel for bf16 caches with products of bf16 (vdpbf16ps: 32 products an instruction,
// twice as many as in f32, and nothing to widen). Included by the files that define the
// instruction, each with a copy of its own; it calls nothing of the standard library
// (attention/cpu/tile_impl.h).
//
// Queries are rounded to bf16, as the keys are, and so are probabilities before they meet the
// values. Values are divided by the sum of the rounded probabilities, so that these add up to 1.
// Sums are f32. Scores and maxima are logarithms to base 2.
//
// A score is four chains, of the dimensions 0 1, 2 3, 4 5 and 6 7 of every 8, and a fixed tree over
// them; a value is one chain over pairs of positions (0 1, 2 3, ... of the tile) in ascending
// order. The number of queries that share registers (QB) changes neither. The values of two
// positions are interleaved in registers, which hides behind the products of the queries that share
// them.
//
// `D` provides dot(acc, a, b), which adds products of pairs of bf16 to f32 lanes, and round(low,
// high), which rounds two vectors of f32 to one of bf16.
#pragma once

#include <immintrin.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/tile.h"
#include "kernels/attention/cpu/vec_avx512.h"

namespace forerun {
namespace {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr int kDotQueries = 4;  // 16 accumulators

inline __m512 minus_infinity() { return _mm512_set1_ps(-__builtin_huge_valf()); }

// 2^t; 0 for minus infinity. Degree 4 on [0, 1), exact at 0: relative error under 3e-6, a
// thousandth of what rounding to bf16 adds.
inline __m512 pow2(__m512 t) {
  constexpr int kDownExact = 0x09;  // the fraction: t minus the integer below
  const __m512 r = _mm512_reduce_ps(t, kDownExact);
  __m512 p = _mm512_set1_ps(0.0134267188f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0522424187f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.241280231f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693044842f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, t);
}

inline __m512i load_piece(const std::byte* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline void prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

// The first `left` of 16 lanes: all of them, or none.
inline __mmask16 first_lanes(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffffu : left > 0 ? (1u << left) - 1 : 0u);
}

// Scores of QB queries against positions `first` to `last`, 16 at a time. kAhead: asks memory for
// the next tile's keys, in the order in which they lie, as many bytes as are read.
template <class D, int QB, bool kAhead>
void dot_scores(const AttentionTile& tile, int32_t query_begin, int32_t first, int32_t last) {
  constexpr int kLoads = 4;  // of 4 positions each
  const std::byte* queries[QB];
  for (int query = 0; query < QB; ++query) queries[query] = tile.queries[query_begin + query];
  const __m512 scale = _mm512_set1_ps(tile.scale * kLog2E);
  const std::byte* next = tile.keys[0] + tile.ahead;
  for (int32_t begin = first / 16 * 16; begin <= last; begin += 16) {
    const std::byte* keys[kLoads];
    for (int load = 0; load < kLoads; ++load) keys[load] = tile.keys[begin / kKeyGroup + load];
    __m512 sums[QB][kLoads];
    for (int query = 0; query < QB; ++query) {
      for (int load = 0; load < kLoads; ++load) sums[query][load] = _mm512_setzero_ps();
    }
    for (int64_t at = 0; at < tile.padded_dim * 2; at += kKeyPieceBytes) {
      __m512i q[QB];
      for (int query = 0; query < QB; ++query) q[query] = load_piece(queries[query] + at);
#pragma GCC unroll 4
      for (int load = 0; load < kLoads; ++load) {
        const std::byte* const key = keys[load] + at * kKeyGroup;
        const __m512i k = _mm512_loadu_si512(key);
        if constexpr (kAhead) prefetch(next + 64 * load);
#pragma GCC unroll 4
        for (int query = 0; query < QB; ++query) {
          sums[query][load] = D::dot(sums[query][load], k, q[query]);
        }
      }
      next += 64 * kLoads;
    }
    for (int query = 0; query < QB; ++query) {
      _mm512_storeu_ps(tile.scores + (query_begin + query) * kAttentionTile + begin,
                       _mm512_mul_ps(Avx512::sum_fours(sums[query]), scale));
    }
  }
}

// Raises a state's maximum to `maximum` where that is higher; returns the one that holds.
inline float raise_pow2_maximum(float* state, int64_t padded_dim, float maximum) {
  if (!(maximum > state[padded_dim])) return state[padded_dim];
  const __m512 scale = pow2(_mm512_set1_ps(state[padded_dim] - maximum));
  for (int64_t dim = 0; dim < padded_dim; dim += 16) {
    _mm512_storeu_ps(state + dim, _mm512_mul_ps(_mm512_loadu_ps(state + dim), scale));
  }
  state[padded_dim] = maximum;
  state[padded_dim + 1] *= _mm512_cvtss_f32(scale);
  return maximum;
}

// Turns a query's scores into probabilities relative to its maximum so far, bf16 [64] in the same
// place; unseen positions get 0.
template <class D>
void dot_probs(const AttentionTile& tile, int32_t query) {
  float* const scores = tile.scores + query * kAttentionTile;
  float* const state = tile.states[query];
  const uint64_t seen = (~uint64_t{0} << tile.first[query]) &
                        (~uint64_t{0} >> (kAttentionTile - 1 - tile.last[query]));
  __m512 s[4];
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    s[part] = _mm512_mask_loadu_ps(minus_infinity(), static_cast<__mmask16>(seen >> (16 * part)),
                                   scores + 16 * part);
  }
  const __m512 highest = _mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3]));
  const __m512 maximum =
      _mm512_set1_ps(raise_pow2_maximum(state, tile.padded_dim, _mm512_reduce_max_ps(highest)));
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) s[part] = pow2(_mm512_sub_ps(s[part], maximum));
  const __m512i low = D::round(s[0], s[1]);
  const __m512i high = D::round(s[2], s[3]);
  _mm512_storeu_si512(scores, low);
  _mm512_storeu_si512(scores + 16, high);
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  const __m512 sum = D::dot(D::dot(_mm512_setzero_ps(), low, ones), high, ones);
  state[tile.padded_dim + 1] += _mm512_reduce_add_ps(sum);
}

enum class Seen { kBoth, kEven, kOdd };  // of a pair of positions

// Adds `num_pairs` pairs of positions from `pair` on to the states of QB queries, for `kLoads`
// loads of 32 values from dimension `dim` on. kAhead as in dot_scores().
template <class D, int QB, int kLoads, Seen kSeen, bool kAhead>
void add_pairs(const AttentionTile& tile, int32_t query_begin, int32_t pair, int32_t num_pairs,
               int64_t dim) {
  float* const* states = tile.states + query_begin;
  const float* const probs = tile.scores + query_begin * kAttentionTile;
  __m512 sums[QB][2 * kLoads];
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < 2 * kLoads; ++vec) {
      sums[query][vec] = _mm512_loadu_ps(states[query] + dim + 16 * vec);
    }
  }
  const std::byte* next = nullptr;
  if constexpr (kAhead) next = tile.values[2 * pair] + tile.ahead + dim * kAttentionTile * 2;
  for (const int32_t end = pair + num_pairs; pair < end; ++pair) {
    __m512i v[2 * kLoads];
#pragma GCC unroll 2
    for (int load = 0; load < kLoads; ++load) {
      __m512i even = _mm512_setzero_si512();
      __m512i odd = _mm512_setzero_si512();
      const int64_t at = 2 * dim + 64 * load;
      if constexpr (kSeen != Seen::kOdd) even = _mm512_loadu_si512(tile.values[2 * pair] + at);
      if constexpr (kSeen != Seen::kEven) odd = _mm512_loadu_si512(tile.values[2 * pair + 1] + at);
      if constexpr (kAhead) {
        prefetch(next);
        prefetch(next + 64);
        next += 128;
      }
      v[2 * load] = _mm512_unpacklo_epi16(even, odd);
      v[2 * load + 1] = _mm512_unpackhi_epi16(even, odd);
    }
#pragma GCC unroll 4
    for (int query = 0; query < QB; ++query) {
      int32_t two;
      __builtin_memcpy(
          &two, reinterpret_cast<const std::byte*>(probs + query * kAttentionTile) + 4 * pair, 4);
      const __m512i p = _mm512_set1_epi32(two);
#pragma GCC unroll 4
      for (int vec = 0; vec < 2 * kLoads; ++vec) {
        sums[query][vec] = D::dot(sums[query][vec], v[vec], p);
      }
    }
  }
  for (int query = 0; query < QB; ++query) {
    for (int vec = 0; vec < 2 * kLoads; ++vec) {
      _mm512_storeu_ps(states[query] + dim + 16 * vec, sums[query][vec]);
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

// Offsets [begin, end) of one query.
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

// Each query's positions in ascending order and no others: a product with 0 would let a later row's
// infinity into an earlier row.
template <class D, int QB, bool kAhead>
void dot_values(const AttentionTile& tile, int32_t query_begin) {
  int32_t first = 0;  // pairs that all queries see both positions of
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

// The first queries prefetch the next tile for the others. Returns the first query that is left
// over.
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
  const __m512 highest = _mm512_set1_ps(maximum);
  __m512 sums[4];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t at = 0; at < count; at += 64) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      float* const here = scores + at + 16 * part;
      const __m512 p = pow2(_mm512_sub_ps(_mm512_loadu_ps(here), highest));
      _mm512_storeu_ps(here, p);
      sums[part] = _mm512_add_ps(sums[part], p);
    }
  }
  return _mm512_reduce_add_ps(
      _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

template <class D>
void load_bf16_query(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to) {
  for (int64_t dim = 0; dim < padded_dim; dim += 32) {
    __m512 halves[2];
    for (int half = 0; half < 2; ++half) {
      const int64_t at = dim + 16 * half;
      halves[half] = _mm512_maskz_loadu_ps(first_lanes(head_dim - at), query + at);
    }
    _mm512_storeu_si512(to + 2 * dim, D::round(halves[0], halves[1]));
  }
}

inline void merge_pow2_states(float* into, const float* from, int64_t padded_dim) {
  const float max_into = into[padded_dim];
  const float max_from = from[padded_dim];
  const float maximum = max_from > max_into ? max_from : max_into;
  const __m512 scale_into = pow2(_mm512_set1_ps(max_into - maximum));
  const __m512 scale_from = pow2(_mm512_set1_ps(max_from - maximum));
  const auto merge = [&](float* to, const float* other) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(to), scale_into);
    _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_loadu_ps(other), scale_from, scaled));
  };
  for (int64_t dim = 0; dim < padded_dim; dim += 16) merge(into + dim, from + dim);
  merge(into + padded_dim, from + padded_dim);  // scales the sum; the maximum is set below
  into[padded_dim] = maximum;
}

// Every 32 values of a state lie in two vectors: dimensions 0 to 3 of every 8, then 4 to 7.
inline void finish_dot_state(const float* state, int64_t padded_dim, int64_t head_dim, float* out) {
  const __m512 inverse = _mm512_set1_ps(1.0f / state[padded_dim + 1]);
  const __m512i order[2] = {
      _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
      _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)};
  for (int64_t dim = 0; dim < head_dim; dim += 32) {
    const __m512 low = _mm512_loadu_ps(state + dim);
    const __m512 high = _mm512_loadu_ps(state + dim + 16);
    for (int half = 0; half < 2; ++half) {
      const int64_t at = dim + 16 * half;
      const __m512 values = _mm512_permutex2var_ps(low, order[half], high);
      _mm512_mask_storeu_ps(out + at, first_lanes(head_dim - at), _mm512_mul_ps(values, inverse));
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
