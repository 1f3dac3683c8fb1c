// The kernel of attention that takes a warp a row: AttentionMode::kWhole, kSplit and kFused.
// Reached through attention_cuda().
#pragma once

#include "kernels/attention/attention_cuda.h"

namespace forerun::cuda {

Status attention_rows_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_rows_cuda();

}  // namespace forerun::cuda
