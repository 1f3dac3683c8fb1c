// Root-mean-square normalization of rows on a GPU: y = x / sqrt(mean(x²) + eps) * weight.
//
// A row's sum of squares runs in fixed lanes and one fixed tree: its bits do not depend on its
// companions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// Device memory, 16-byte aligned; `dim` a multiple of 8.
struct RmsNormCall {
  const __nv_bfloat16* input = nullptr;  // [..][dim]
  // Row i of the output is made of this row of the input; null: of row i.
  const int32_t* row_index = nullptr;
  const float* weight = nullptr;    // [dim]
  __nv_bfloat16* output = nullptr;  // [rows][dim], not the input
  int64_t dim = 0;
  int32_t rows = 0;
  float eps = 0;
};

// Submits one launch, a member of a chain of dependent launches (LinearCall::dependent).
Status rms_norm_cuda(const RmsNormCall& call, cudaStream_t stream);

// Loads the kernel on the current device: once a device, before any graph is captured.
Status prepare_rms_norm_cuda();

}  // namespace forerun::cuda
