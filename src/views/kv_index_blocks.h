// The number of KV blocks of an index of quantized keys (kernels/pq_index), for code that allocates
// them and must not include kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step/step.h"

namespace forerun {

// Returns the number of blocks of an index over `tokens` tokens; head_dim >= 8. For each KV head
// the index holds 256 f32 centroids per dimension and 16 bytes per token; a block offers each head
// the bytes of its bf16 keys and values.
constexpr int32_t kv_index_blocks(int32_t tokens, int32_t head_dim) {
  const int32_t pieces = 2 * kKvBlockTokens * std::max(head_dim / 8, 1);
  return (64 * head_dim + tokens + pieces - 1) / pieces;
}

}  // namespace forerun
