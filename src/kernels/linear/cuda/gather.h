// A kernel that gathers rows of normalized activations into consecutive rows, for a layer of many
// rows, since tensor copies (linear/cuda/tiles.cu) need adjacent rows. The kernel for few rows
// takes an index instead (LinearCall::row_index).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"

namespace forerun::cuda {

// All pointers are device memory, 16-byte aligned. Row i of the output is row `row_index`[i] of the
// input.
struct LinearGatherCall {
  const int32_t* row_index = nullptr;           // [rows]
  const uint16_t* input = nullptr;              // [..][input_stride], NormOutputCuda::scaled
  const float* squares = nullptr;               // [..][dim / kNormGroup] (rms_norm/cuda/rms_norm.h)
  uint16_t* output = nullptr;                   // [rows][output_stride]
  float* output_squares = nullptr;              // [rows][dim / kNormGroup]
  int64_t dim = 0;                              // a multiple of 32
  int64_t input_stride = 0, output_stride = 0;  // multiples of 8, at least dim
  int rows = 0;
};

// Submits one dependent launch, which may start early and waits for the stream's previous kernel.
Status linear_gather_cuda(const LinearGatherCall& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_linear_gather();

}  // namespace forerun::cuda
