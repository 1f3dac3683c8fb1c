// A kernel that spreads the logits of a reduced vocabulary to the columns of its rows' tokens.
// Other tokens get -infinity.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// All pointers are device memory.
struct SpreadLogitsCallCuda {
  const float* drafts = nullptr;  // [rows][drafts_stride]
  int64_t drafts_stride = 0;
  const int32_t* column_of = nullptr;  // [tokens]: a token's column of `drafts`, or -1
  float* logits = nullptr;             // [rows][logits_stride]
  int64_t logits_stride = 0;           // at least `tokens`
  int32_t tokens = 0;
  int32_t rows = 0;
};

// Submits one dependent launch, which may start early and waits for the stream's previous kernel.
// Fails before launching if the arguments do not fit.
Status spread_logits_cuda(const SpreadLogitsCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_spread_logits_cuda();

}  // namespace forerun::cuda
