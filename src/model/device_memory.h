// The memory needs of parts of models, and a check that there is enough. Estimates, the engine's
// plan and the decoders' check before loading all use this one description.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

// The need of one device's part of a model, in bytes.
struct MemoryNeed {
  std::string name = {};  // for messages: "draft", "target device 1"
  Role role = Role::kTarget;
  int64_t weight_bytes = 0;  // in the kernels' format, once all weights are loaded
  // Only on a GPU: weights as they are stored, until they are in the kernels' format. Freed before
  // the buffers of passes and the cache are allocated.
  int64_t staged_bytes = 0;
  int64_t buffer_bytes = 0;  // buffers of passes, or of loading if that takes more; 0 on CPUs
  // K and V of kKvBlockTokens tokens, all layers; 0 for a part without heads.
  int64_t kv_block_bytes = 0;

  int64_t kv_token_bytes() const { return kv_block_bytes / kKvBlockTokens; }
};

// A memory and the parts in it.
struct DeviceMemory {
  std::string name;                     // for messages: "this machine", "cuda:0"
  int64_t available_bytes = INT64_MAX;  // bytes before any of the parts is loaded
  std::string source = {};              // origin of available_bytes, for messages
  bool is_host = false;                 // the system allocates pages when they are first written
  std::vector<MemoryNeed> needs = {};

  // Return the sum of the needs of all parts, or of those of one role.
  MemoryNeed need() const;
  MemoryNeed need(Role role) const;
  // Returns the bytes that weights and buffers leave free; negative if they do not fit.
  int64_t room_bytes() const;
};

// Returns kResourceExhausted if one of `memories` is too small for its parts and `kv_blocks` blocks
// of KV for each; the message says how much each memory has to hold and has. kv_blocks is 0 if the
// cache is not planned yet.
Status check_memory(std::span<const DeviceMemory> memories, int64_t kv_blocks);

// Returns a rounded number with a unit, in powers of 1000: "150 MB".
std::string describe_bytes(int64_t bytes);

}  // namespace forerun
