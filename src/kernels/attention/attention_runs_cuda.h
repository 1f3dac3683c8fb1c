// The kernel of attention for many sequences of few rows: AttentionMode::kRuns. Reached through
// attention_cuda().
#pragma once

#include "kernels/attention/attention_cuda.h"

namespace forerun::cuda {

// Heads of up to 128 dimensions.
Status attention_runs_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_runs_cuda();

}  // namespace forerun::cuda
