// The kernel of attention over long prefixes that few rows share: AttentionMode::kSplit and kFused
// where the plan has prefix_items. Reached through attention_cuda().
#pragma once

#include "kernels/attention/attention_cuda.h"

namespace forerun::cuda {

// Heads of up to 128 dimensions.
Status attention_shared_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_shared_cuda();

}  // namespace forerun::cuda
