// Divides the devices' memory: the part that weights and buffers leave becomes KV cache, for a
// context length and a number of requests.
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/engine.h"
#include "forerun/status.h"
#include "model/device_memory.h"
#include "step/types.h"

namespace forerun {

// Number of rows of a token tree that each request can hold beside its text, without pipeline
// stages.
inline constexpr int32_t kTreeReserveTokens = 256;

struct MemoryPlan {
  std::vector<DeviceMemory> memories;  // include the needs of both models' parts
  int32_t max_context_tokens = 0;
  int32_t tree_tokens = 0;    // rows of a token tree that each request can hold beside its text
  int64_t target_blocks = 0;  // blocks of kKvBlockTokens tokens
  int64_t draft_blocks = 0;   // 0 without a draft model
  int32_t draft_window = 0;   // EngineOptions::draft_window; 0 without a draft model

  int64_t kv_blocks(Role role) const {
    return role == Role::kTarget ? target_blocks : draft_blocks;
  }
  int64_t weight_bytes() const;
  int64_t kv_bytes() const;
};

// `longest_context`: the context length of the checkpoints, in tokens. If the user sets no limit,
// KV takes half of the host's memory, or nine tenths of the free memory of a GPU. Fails, with the
// figures, if the requested context does not fit into the requested memory, or that memory is more
// than the machine has. `target_stages`: the number of the target's pipeline stages, each of which
// holds rows that are in flight.
Result<MemoryPlan> plan_memory(const EngineOptions& options, int32_t longest_context,
                               bool has_draft, std::vector<DeviceMemory> memories,
                               int32_t target_stages = 1);

}  // namespace forerun
