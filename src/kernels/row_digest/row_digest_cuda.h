// Digests of rows of logits that lie on a GPU (kernels/row_digest/row_digest.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "forerun/status.h"
#include "kernels/row_digest/row_digest.h"

namespace forerun::cuda {

struct RowDigestCallCuda {
  const float* logits = nullptr;  // [rows][stride]; 16-byte aligned, as is the stride in bytes
  int64_t stride = 0;             // at least `tokens`, in whole groups of 4
  int32_t tokens = 0;
  int32_t first_token = 0;  // token of column 0, a multiple of 4
  // The step's data on the device: at `offset_offset` an int32, where [count] RowQuery begin
  // (16-byte aligned); at `count_offset` an int32, how many rows there are, at most `rows`.
  const std::byte* step = nullptr;
  int32_t offset_offset = 0;
  int32_t count_offset = 0;
  RowDigest* digests = nullptr;  // [rows]; mapped host memory. Untouched for kLogits
  int32_t rows = 0;
};

// Submits one launch, which may start before the stream's previous kernel has ended and waits for
// it. For devices of compute capability 9.0 and up. Refuses more tokens than fit in the shared
// memory of a cluster, 393,216 (kUnsupported).
Status row_digest_cuda(const RowDigestCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device: once a device, before any graph is captured.
Status prepare_row_digest_cuda();

}  // namespace forerun::cuda
