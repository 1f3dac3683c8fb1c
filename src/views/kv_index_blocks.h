// How many KV blocks an index of quantized keys takes: what kernels/pq_index lays out, for those
// who make room for it and do not see the kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step/step.h"

namespace forerun {

// Of so many tokens and heads of so many dimensions, at least 8: 256 centroids a dimension in f32
// and 16 bytes a token, in the bytes that a head's keys and values take in bf16.
constexpr int32_t kv_index_blocks(int32_t tokens, int32_t head_dim) {
  const int32_t pieces = 2 * kKvBlockTokens * std::max(head_dim / 8, 1);
  return (64 * head_dim + tokens + pieces - 1) / pieces;
}

}  // namespace forerun
