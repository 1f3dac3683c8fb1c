// The memory that parts of models need, and whether there is enough. Estimates, the engine's plan
// and the decoders' check before loading all use this one description.
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
  std::string name = {};  // name of the part, for messages: "draft", "target device 1"
  Role role = Role::kTarget;
  int64_t weight_bytes = 0;  // in the kernels' format, once all have been read
  // Only on a GPU: weights as they are stored, while they are put into the kernels' format. Freed
  // before the buffers of passes and the cache are allocated.
  int64_t staged_bytes = 0;
  int64_t buffer_bytes = 0;  // buffers of passes, or of loading if that takes more; 0 on CPUs
  // K and V of kKvBlockTokens tokens, all layers; 0 where the part has no heads.
  int64_t kv_block_bytes = 0;

  int64_t kv_token_bytes() const { return kv_block_bytes / kKvBlockTokens; }
};

// A memory and the parts that lie in it.
struct DeviceMemory {
  std::string name;                     // for messages: "this machine", "cuda:0"
  int64_t available_bytes = INT64_MAX;  // bytes before any of the parts is loaded
  std::string source = {};              // where available_bytes comes from, for messages
  bool is_host = false;                 // pages are allocated as they are first written
  std::vector<MemoryNeed> needs = {};

  // The sum of the parts' needs, or of those of one role.
  MemoryNeed need() const;
  MemoryNeed need(Role role) const;
  // The bytes that weights and buffers leave; below 0 if they do not fit.
  int64_t room_bytes() const;
};

// kResourceExhausted if one of `memories` is too small for its parts and `kv_blocks` blocks of KV
// of each; the message says what each memory has to hold and has. kv_blocks 0: the cache is not
// planned yet.
Status check_memory(std::span<const DeviceMemory> memories, int64_t kv_blocks);

// Rounded, in powers of 1000: "150 MB".
std::string describe_bytes(int64_t bytes);

}  // namespace forerun
