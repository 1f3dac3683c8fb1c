// How the memory for KV is divided between the models and their requests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// A memory that holds KV of one or both models, a block of each at a time.
struct KvMemory {
  std::string name;             // for messages: "this machine", "cuda:0"
  int64_t available_bytes = 0;  // beside the weights
  // Taken where the user names no limit.
  int64_t default_bytes = 0;
  // Of a token, on each device of each model whose KV lies here; 0 of a device without heads.
  std::vector<int64_t> token_bytes;
};

struct KvPlan {
  int32_t max_context_tokens = 0;
  int64_t target_blocks = 0;
  int64_t draft_blocks = 0;  // 0 without a draft model
};

// `longest_context`: what the checkpoints were made for, in tokens. Fails with the figures where
// the context asked for does not fit the memory asked for, or that does not fit the machine.
Result<KvPlan> plan_kv(const EngineOptions& options, int32_t longest_context, bool has_draft,
                       std::span<const KvMemory> memories);

}  // namespace forerun
