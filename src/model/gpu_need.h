// What parts of decoders ask of GPUs' memory, and whether it is there.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/status.h"

namespace forerun {

// Of one part, in bytes.
struct GpuNeed {
  int32_t gpu = 0;  // cuda:N
  int64_t weight_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t kv_tokens = 0;  // 0: the cache has not been planned yet
  int64_t kv_bytes = 0;
  int64_t free_bytes = 0;  // that are left for it

  int64_t bytes() const { return weight_bytes + buffer_bytes + kv_bytes; }
};

// kResourceExhausted where one has not enough, with what each needs and has.
Status check_gpu_needs(std::span<const GpuNeed> needs);

}  // namespace forerun
