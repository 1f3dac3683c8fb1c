// What parts of models need of the memory that they lie in, and whether it is there: the one
// description that estimates give, the engine plans with and the decoders check before they load.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

// Of one device's part of a model, in bytes.
struct MemoryNeed {
  std::string name = {};  // of the part, for messages: "draft", "target device 1"
  Role role = Role::kTarget;
  int64_t weight_bytes = 0;  // in the kernels' format, once all have been read
  // Of a GPU: weights as they are stored, while they are put into the kernels' format. Gone before
  // the buffers of passes and the cache are taken.
  int64_t staged_bytes = 0;
  int64_t buffer_bytes = 0;  // of passes, or of loading where that takes more; 0 on processors
  // K and V of kKvBlockTokens tokens, all layers; 0 where the part has no heads.
  int64_t kv_block_bytes = 0;

  int64_t kv_token_bytes() const { return kv_block_bytes / kKvBlockTokens; }
};

// A memory and the parts that lie in it.
struct DeviceMemory {
  std::string name;                     // for messages: "this machine", "cuda:0"
  int64_t available_bytes = INT64_MAX;  // before any of the parts is loaded
  std::string source = {};              // what says so, where messages are to tell
  bool is_host = false;                 // pages are taken as they are first written
  std::vector<MemoryNeed> needs = {};

  // The parts' together, or those of one role.
  MemoryNeed need() const;
  MemoryNeed need(Role role) const;
  // What weights and buffers leave; below 0 where they do not fit.
  int64_t room_bytes() const;
};

// kResourceExhausted where one of `memories` has not enough for its parts and `kv_blocks` blocks of
// KV of each, with what each memory has to hold and has; kv_blocks 0: the cache is not planned yet.
Status check_memory(std::span<const DeviceMemory> memories, int64_t kv_blocks);

// Rounded, in a unit of powers of 1000: "150 MB".
std::string describe_bytes(int64_t bytes);

}  // namespace forerun
