// The first kernel of a forward pass on a GPU. It copies the Step's data from mapped host memory to
// device memory, so that later kernels do not read it over the bus, and looks up the embeddings of
// the rows' tokens; blocks of a file are decoded and rounded to bf16. In a later stage of a
// pipeline, `table` holds the hidden states that the previous stage sent, also in mapped host
// memory, and a row's "token" is the index of its hidden state. The output then has the bits that
// the last linear layer of the previous stage would have written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "forerun/status.h"
#include "kernels/linear/unit_formats.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {

// The rows of an embedding: bf16, or blocks of a GGUF file in one of the formats of
// linear/cuda/stored_blocks.h, as they are stored.
struct EmbeddingTableCuda {
  const std::byte* rows = nullptr;  // [tokens][row_bytes]; bf16 rows are 16-byte aligned
  int64_t row_bytes = 0;
  int32_t tokens = 0;  // the embedding of any other token is zero
  LinearFormat format = LinearFormat::kBf16;
};

struct EmbeddingCallCuda {
  // The Step's data: mapped host memory, 8 KB or more, written before the launch. At `bytes_offset`
  // lies an int32, the number of bytes to copy to `target` (a multiple of 16); at `tokens_offset`
  // the rows' tokens, int32 [rows].
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  int32_t bytes_offset = 0;
  int32_t tokens_offset = 0;
  EmbeddingTableCuda table = {};
  int64_t dim = 0;                  // a multiple of 32 and of a block's values
  __nv_bfloat16* output = nullptr;  // [rows][output_stride]
  int64_t output_stride = 0;        // a multiple of 8, at least dim
  NormOutputCuda next_norm = {};    // norm of the output; all fields must be set
  int32_t rows = 0;
  uint32_t* to_clear = nullptr;  // [clear_count] words that the kernel sets to zero
  int32_t clear_count = 0;
};

// Submits one launch that waits for all earlier work in the stream. Fails before launching if the
// arguments do not fit.
Status embedding_cuda(const EmbeddingCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_embedding_cuda();

}  // namespace forerun::cuda
