// The tile kernels of attention (tiles of 64 positions), which each instruction set's file exports.
// Attention and kernels/kv_select use them; the latter only needs the scores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun {

// Floats of a running softmax beside its values. The state of one query has `padded_dim`
// unnormalized values in the kernel's own order, then the maximum score, then the sum of
// exponentials relative to it. Scores are natural logarithms of unnormalized probabilities in some
// kernels and logarithms to base 2 in others: states and scores may only be passed among the
// functions of one AttentionTypeKernels.
inline constexpr int64_t kSoftmaxStateExtra = 16;  // keeps states 64-byte aligned
// Static, because a copy compiled for one CPU must never serve another.
[[maybe_unused]] static constexpr int64_t softmax_state_floats(int64_t padded_dim) {
  return padded_dim + kSoftmaxStateExtra;
}

// One tile of positions and the queries that attend to it through the same slots.
struct AttentionTile {
  int64_t padded_dim = 0;
  float scale = 0.0f;  // factor of scores: 1 / sqrt(head_dim)
  int32_t num_queries = 0;
  const std::byte* const* queries = nullptr;  // each in the form of load_query()
  const int32_t* first = nullptr;             // first and last visible offset in the tile, by query
  const int32_t* last = nullptr;
  // Running softmax of each query, to which the kernel adds the tile.
  float* const* states = nullptr;
  // [64 / 4] addresses of groups of keys (PagedKv); readable even if they are not visible.
  const std::byte* const* keys = nullptr;
  const std::byte* const* values = nullptr;  // [64] addresses; only visible ones are read
  float* scores = nullptr;                   // scratch [num_queries][64]
  // Bytes from each key and value to that of the next tile, which the kernel prefetches while it
  // computes. 0 if the next tile is not known.
  int64_t ahead = 0;
};

// The functions for a cache of one dtype.
struct AttentionTypeKernels {
  // Writes a query of `head_dim` in the kernel's order and type, padded with zeros, to at most
  // padded_dim * 4 bytes, 16-byte aligned.
  void (*load_query)(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to);
  void (*tile)(const AttentionTile& tile);
  // Computes only tile.scores, of every query and all 64 positions; does not read `values` and
  // `states`.
  void (*scores)(const AttentionTile& tile);
  // Replaces scores [count], none of them above `maximum`, by the exponentials of their differences
  // to it. Returns the sum, in an order that depends only on `count`, a multiple of 64.
  float (*powers)(float* scores, int64_t count, float maximum);
  // Merges `from` into `into`, in this order.
  void (*merge)(float* into, const float* from, int64_t padded_dim);
  // Writes the state's values over its sum to out [head_dim], in the order of the head.
  void (*finish)(const float* state, int64_t padded_dim, int64_t head_dim, float* out);
  float score_unit;  // scores are natural logarithms times this
};

struct AttentionKernels {
  AttentionTypeKernels f32;
  AttentionTypeKernels bf16;
};

// Returns the kernels of current_isa().
const AttentionKernels& attention_kernels();

// Copies one key, piece by piece, from its place in one group to another place.
void copy_key(const std::byte* from, std::byte* to, int64_t head_bytes);

const AttentionKernels& attention_kernels_scalar();
// Defined where isa_is_built() (kernels/isa.h).
const AttentionKernels& attention_kernels_avx2();
const AttentionKernels& attention_kernels_avx512();
const AttentionTypeKernels& attention_kernels_bf16_dot();  // for bf16 caches, with AVX512_BF16

}  // namespace forerun
