// The tile kernels of attention (tiles of 64 positions), which each instruction set's file exports.
// For attention, and for kernels/kv_select, which takes their scores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun {

// A running softmax of one query is `padded_dim` unnormalized values in an order of the kernel's
// own, then the maximum score, then the sum of exponentials relative to it. Scores are natural
// logarithms of unnormalized probabilities in some kernels and logarithms to base 2 in others:
// states and scores may only be passed among the functions of one AttentionTypeKernels.
inline constexpr int64_t kSoftmaxStateExtra = 16;  // keeps states 64-byte aligned
// Static, since a copy compiled for one processor must never serve another.
[[maybe_unused]] static constexpr int64_t softmax_state_floats(int64_t padded_dim) {
  return padded_dim + kSoftmaxStateExtra;
}

// One tile of positions against queries that see it through the same slots.
struct AttentionTile {
  int64_t padded_dim = 0;
  float scale = 0.0f;  // factor of scores: 1 / sqrt(head_dim)
  int32_t num_queries = 0;
  const std::byte* const* queries = nullptr;  // each as load_query() wrote it
  const int32_t* first = nullptr;  // per query: first and last visible offset in the tile
  const int32_t* last = nullptr;
  float* const* states = nullptr;  // per query: the running softmax to add the tile to
  // [64 / 4] addresses of groups of keys (PagedKv); readable even where not visible.
  const std::byte* const* keys = nullptr;
  const std::byte* const* values = nullptr;  // [64] addresses; only visible ones are read
  float* scores = nullptr;                   // scratch [num_queries][64]
  // Bytes from each key and value to that of the next tile, which the kernel prefetches while it
  // computes. 0: the next tile is not known.
  int64_t ahead = 0;
};

// The functions for a cache of one dtype.
struct AttentionTypeKernels {
  // Writes a query of `head_dim` in the kernel's order and type, padded with zeros, in at most
  // padded_dim * 4 bytes, 16-byte aligned.
  void (*load_query)(const float* query, int64_t head_dim, int64_t padded_dim, std::byte* to);
  void (*tile)(const AttentionTile& tile);
  // tile.scores alone, of every query and all 64 positions; `values` and `states` are not read.
  void (*scores)(const AttentionTile& tile);
  // Replaces scores [count], none of them above `maximum`, by the exponentials of their differences
  // to it. Returns the sum, in an order that depends on `count` alone, a multiple of 64.
  float (*powers)(float* scores, int64_t count, float maximum);
  // into = into merged with from, in this order.
  void (*merge)(float* into, const float* from, int64_t padded_dim);
  // out [head_dim] = the state's values over its sum, in the order of the head.
  void (*finish)(const float* state, int64_t padded_dim, int64_t head_dim, float* out);
  float score_unit;  // scores are natural logarithms times this
};

struct AttentionKernels {
  AttentionTypeKernels f32;
  AttentionTypeKernels bf16;
};

// The kernels of current_isa().
const AttentionKernels& attention_kernels();

// Copies one key, piece by piece, from its place in a group to another.
void copy_key(const std::byte* from, std::byte* to, int64_t head_bytes);

const AttentionKernels& attention_kernels_scalar();
// Defined where isa_is_built() (kernels/isa.h).
const AttentionKernels& attention_kernels_avx2();
const AttentionKernels& attention_kernels_avx512();
const AttentionTypeKernels& attention_kernels_bf16_dot();  // for bf16 caches, by AVX512_BF16

}  // namespace forerun
