// The first kernel of a forward on a GPU: brings the step's data from mapped host memory into the
// device's, so that later kernels do not cross the bus for it, and looks up the rows' tokens. Of a
// stage of a pipeline the table is the hidden rows that it is given, in mapped host memory as well,
// and a row's "token" its place there; what it writes has the bits that the linear layer in front
// of the cut would have left behind.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {

struct EmbeddingCallCuda {
  // Mapped host memory, 8 KB or more, written before the launch: at `bytes_offset` an int32, how
  // many bytes to copy to `target` (a multiple of 16); at `tokens_offset` the rows' tokens, int32
  // [rows].
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  int32_t bytes_offset = 0;
  int32_t tokens_offset = 0;
  // [table_tokens][dim]; other tokens give zeros.
  const __nv_bfloat16* table = nullptr;
  int32_t table_tokens = 0;
  int64_t dim = 0;                  // a multiple of 32
  __nv_bfloat16* output = nullptr;  // [rows][output_stride]
  int64_t output_stride = 0;        // a multiple of 8, at least dim
  NormOutputCuda next_norm = {};    // of the output; all of it is needed
  int32_t rows = 0;
  uint32_t* to_clear = nullptr;  // [clear_count] set to zero
  int32_t clear_count = 0;
};

// Submits one launch that waits for everything before it in the stream. Fails before launching if
// the arguments do not fit.
Status embedding_cuda(const EmbeddingCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device: once a device, before any graph is captured.
Status prepare_embedding_cuda();

}  // namespace forerun::cuda
