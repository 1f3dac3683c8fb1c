#include "kernels/attention/cuda/attention.h"

#include <string>

#include "base/status_macros.h"
#include "kernels/attention/cuda/kernels.h"

namespace forerun::cuda {

Status prepare_attention_cuda() {
  FORERUN_RETURN_IF_ERROR(prepare_attention_rows_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_decode_cluster_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_shared_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_persistent_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_prefill_cluster_cuda());
  return prepare_attention_prefill_cuda();
}

Status attention_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  if (kv.head_dim < 1 || kv.head_dim > 256 || kv.num_kv_heads < 1 ||
      call.num_heads % kv.num_kv_heads != 0) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: " + std::to_string(call.num_heads) + " heads of " +
                std::to_string(kv.head_dim) + " dimensions over " +
                std::to_string(kv.num_kv_heads) +
                " key/value heads; accepted: up to 256 dimensions, and a number of heads that is a "
                "multiple of the key/value heads"};
  }
  if (fuses_rope_append(call.kernel) && !can_fuse_rope(kv.head_dim, false)) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions cannot be rotated by the attention kernel"};
  }
  const bool shares = call.shared_prefix != SharedPrefix::kNone;
  const bool prefill_cluster = prefill_cluster_blocks(call.kernel) > 0;
  const bool prefill = call.kernel == AttentionKernel::kPrefill ||
                       call.kernel == AttentionKernel::kPrefillThenPersistent;
  const bool persistent = call.kernel == AttentionKernel::kPersistent ||
                          call.kernel == AttentionKernel::kPrefillThenPersistent;
  if ((shares || prefill_cluster || prefill || persistent) && kv.head_dim > 128) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions in a kernel of shared tiles; accepted: up to 128"};
  }
  const int max_blocks = largest_prefill_cluster(kv.head_dim);
  if (prefill_cluster_blocks(call.kernel) > max_blocks) {
    return {StatusCode::kInvalidArgument,
            "attention on a GPU: heads of " + std::to_string(kv.head_dim) +
                " dimensions have prefill clusters of up to " + std::to_string(max_blocks) +
                " blocks, not of " + std::to_string(prefill_cluster_blocks(call.kernel))};
  }
  if (is_decode_cluster(call.kernel)) return attention_decode_cluster_cuda(call, stream);
  if (prefill_cluster) return attention_prefill_cluster_cuda(call, stream);
  if (prefill) FORERUN_RETURN_IF_ERROR(attention_prefill_cuda(call, stream));
  if (persistent) return attention_persistent_cuda(call, stream);
  if (prefill) return {};
  if (shares) return attention_shared_cuda(call, stream);
  return attention_rows_cuda(call, stream);
}

}  // namespace forerun::cuda
