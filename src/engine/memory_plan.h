// What the models get of the memories that they lie in: how much of what weights and buffers leave
// becomes KV cache, for how long a context and how many requests.
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/engine.h"
#include "forerun/status.h"
#include "model/device_memory.h"
#include "step/types.h"

namespace forerun {

struct MemoryPlan {
  std::vector<DeviceMemory> memories;  // with the needs of both models' parts
  int32_t max_context_tokens = 0;
  int32_t tree_tokens = 0;    // rows of a tree that every request finds room for beside its text
  int64_t target_blocks = 0;  // of kKvBlockTokens tokens
  int64_t draft_blocks = 0;   // 0 without a draft model
  int32_t draft_window = 0;   // EngineOptions::draft_window, of a draft model that is there

  int64_t kv_blocks(Role role) const {
    return role == Role::kTarget ? target_blocks : draft_blocks;
  }
  int64_t weight_bytes() const;
  int64_t kv_bytes() const;
};

// `longest_context`: what the checkpoints were made for, in tokens. Where the user names no limit,
// KV takes half of the host's memory, or nine tenths of what is left of a GPU's. Fails with the
// figures where the context asked for does not fit the memory asked for, or that does not fit the
// machine.
// `target_stages`: of a pipeline, which holds rows of one request in all of its stages.
Result<MemoryPlan> plan_memory(const EngineOptions& options, int32_t longest_context,
                               bool has_draft, std::vector<DeviceMemory> memories,
                               int32_t target_stages = 1);

}  // namespace forerun
