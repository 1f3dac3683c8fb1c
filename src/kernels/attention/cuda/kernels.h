// The kernels of attention on a GPU. attention_cuda() chooses among them by the plan. Each has a
// function that submits a launch and one that prepares the kernel, called once per device.
#pragma once

#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

// Runs one warp per row: AttentionKernel::kUnsplitKv, kSplitKv and kSplitKvFusedRope.
Status attention_rows_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_rows_cuda();

// Runs decode clusters (is_decode_cluster()). Takes heads of 64 or 128 dimensions (can_fuse_rope).
Status attention_decode_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_decode_cluster_cuda();

// Runs prefix items of long prefixes that few rows share: AttentionKernel::kSplitKv and
// kSplitKvFusedRope if the plan has prefix_items. Takes heads of up to 128 dimensions.
Status attention_shared_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_shared_cuda();

// Runs many sequences of few rows: AttentionKernel::kPersistent. Takes heads of up to 128
// dimensions.
Status attention_persistent_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_persistent_cuda();

// Runs few rows of prompts, in clusters of prefill_cluster_blocks() blocks. Takes heads of up to
// 128 dimensions.
Status attention_prefill_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_prefill_cluster_cuda();

// Runs many rows: AttentionKernel::kPrefill. Takes heads of up to 128 dimensions.
Status attention_prefill_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_prefill_cuda();

}  // namespace forerun::cuda
