// How many KV blocks an index of quantized keys (kernels/pq_index) takes, for code that allocates
// them and must not include kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step/step.h"

namespace forerun {

// Blocks of an index over `tokens` tokens; head_dim >= 8. For each KV head the index holds 256
// centroids a dimension in f32 and 16 bytes a token; the head's share of a block is its keys and
// values in bf16.
constexpr int32_t kv_index_blocks(int32_t tokens, int32_t head_dim) {
  const int32_t pieces = 2 * kKvBlockTokens * std::max(head_dim / 8, 1);
  return (64 * head_dim + tokens + pieces - 1) / pieces;
}

}  // namespace forerun
