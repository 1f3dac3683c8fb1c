// The kernels of attention on a GPU. attention_cuda() chooses among them by the plan. Each has a
// function that submits a launch and one that prepares the kernel, called once per device.
#pragma once

#include "kernels/attention/cuda/attention.h"

namespace forerun::cuda {

// A warp per row: AttentionMode::kWhole, kSplit and kFused.
Status attention_rows_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_rows_cuda();

// Clusters: is_cluster(). Heads of 64 or 128 dimensions (can_fuse_rope).
Status attention_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_cluster_cuda();

// Long prefixes that few rows share: AttentionMode::kSplit and kFused where the plan has
// prefix_items. Heads of up to 128 dimensions.
Status attention_shared_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_shared_cuda();

// Many sequences of few rows: AttentionMode::kRuns. Heads of up to 128 dimensions.
Status attention_runs_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_runs_cuda();

// Few rows of prompts, by clusters of tile_cluster_blocks() blocks. Heads of up to 128 dimensions.
Status attention_tile_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_tile_cluster_cuda();

// Many rows: AttentionMode::kTiles. Heads of up to 128 dimensions.
Status attention_tiles_cuda(const AttentionCallCuda& call, cudaStream_t stream);
Status prepare_attention_tiles_cuda();

}  // namespace forerun::cuda
