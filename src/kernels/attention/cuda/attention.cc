#include "kernels/attention/cuda/attention.h"

#include <string>

#include "base/status_macros.h"
#include "kernels/attention/cuda/kernels.h"

namespace forerun::cuda {

Status prepare_attention_cuda() {
  FORERUN_RETURN_IF_ERROR(prepare_attention_rows_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_cluster_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_shared_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_runs_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_tile_cluster_cuda());
  return prepare_attention_tiles_cuda();
}

Status attention_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  if (kv.head_dim < 1 || kv.head_dim > 256 || kv.num_kv_heads < 1 ||
      call.num_heads % kv.num_kv_heads != 0) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: " + std::to_string(call.num_heads) + " heads of " +
                std::to_string(kv.head_dim) + " dimensions over " +
                std::to_string(kv.num_kv_heads) +
                " key/value heads; accepted: head dimensions up to 256 and whole groups"};
  }
  if (is_fused(call.mode) && !can_fuse_rope(kv.head_dim, false)) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions cannot be rotated by the attention kernel"};
  }
  const bool shares = call.shared_prefix != SharedPrefix::kNone;
  const bool tile_cluster = tile_cluster_blocks(call.mode) > 0;
  const bool tiles =
      call.mode == AttentionMode::kTiles || call.mode == AttentionMode::kTilesAndRuns;
  const bool runs = call.mode == AttentionMode::kRuns || call.mode == AttentionMode::kTilesAndRuns;
  if ((shares || tile_cluster || tiles || runs) && kv.head_dim > 128) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions in a mode of shared tiles; accepted: up to 128"};
  }
  const int max_blocks = largest_tile_cluster(kv.head_dim);
  if (tile_cluster_blocks(call.mode) > max_blocks) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions have tile clusters of up to " + std::to_string(max_blocks) +
                " blocks, not of " + std::to_string(tile_cluster_blocks(call.mode))};
  }
  if (is_cluster(call.mode)) return attention_cluster_cuda(call, stream);
  if (tile_cluster) return attention_tile_cluster_cuda(call, stream);
  if (tiles) FORERUN_RETURN_IF_ERROR(attention_tiles_cuda(call, stream));
  if (runs) return attention_runs_cuda(call, stream);
  if (tiles) return {};
  if (shares) return attention_shared_cuda(call, stream);
  return attention_rows_cuda(call, stream);
}

}  // namespace forerun::cuda
