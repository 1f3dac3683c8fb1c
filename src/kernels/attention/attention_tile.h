// What the per-instruction-set files export. Private to attention.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun {

// A running softmax of one query is `padded_dim` unnormalized values in an order of the kernel's
// own, then the maximum score, then the sum of exponentials relative to it.
inline constexpr int64_t kSoftmaxStateExtra = 16;  // keeps states 64-byte aligned
// Static: a copy of it compiled for one processor must never serve another.
[[maybe_unused]] static constexpr int64_t softmax_state_floats(int64_t padded_dim) {
  return padded_dim + kSoftmaxStateExtra;
}

// One tile of positions against queries that see it through the same slots.
struct AttentionTile {
  int64_t padded_dim = 0;
  int32_t num_queries = 0;
  // Each [padded_dim], scaled, padding zero; for a bf16 cache every 8 dimensions in the order
  // 0 2 4 6 1 3 5 7, which is how its keys unpack.
  const float* const* queries = nullptr;
  const int32_t* first = nullptr;  // per query: first and last visible offset in the tile
  const int32_t* last = nullptr;
  float* const* states = nullptr;  // per query: the running softmax to add the tile to
  // [64 / 4] addresses of groups of keys (PagedKv); readable even where not visible.
  const std::byte* const* keys = nullptr;
  const std::byte* const* values = nullptr;  // [64] addresses; only visible ones are read
  float* scores = nullptr;                   // scratch [num_queries][64]
};

// For a cache of one dtype.
struct AttentionTypeKernels {
  void (*tile)(const AttentionTile& tile);
  // out [head_dim] = the state's values over its sum, in the order of the head.
  void (*finish)(const float* state, int64_t padded_dim, int64_t head_dim, float* out);
};

struct AttentionKernels {
  AttentionTypeKernels f32;
  AttentionTypeKernels bf16;
  // into = into merged with from, in this order.
  void (*merge)(float* into, const float* from, int64_t padded_dim);
};

// Copies one key, piece by piece, from its place in a group to another.
void copy_key(const std::byte* from, std::byte* to, int64_t head_bytes);

const AttentionKernels& attention_kernels_scalar();
#if defined(__x86_64__)
const AttentionKernels& attention_kernels_avx2();
const AttentionKernels& attention_kernels_avx512();
#endif

}  // namespace forerun
