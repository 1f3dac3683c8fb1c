// The cluster kernel of attention: AttentionMode::kCluster. Reached through attention_cuda().
#pragma once

#include "kernels/attention/attention_cuda.h"

namespace forerun::cuda {

// Heads of 64 or 128 dimensions (can_fuse_rope).
Status attention_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_cluster_cuda();

}  // namespace forerun::cuda
