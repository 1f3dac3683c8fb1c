#include <string>

#include "device/cuda/cuda_devices.h"
#include "model/cuda/fused_linear_cuda.h"
#include "model/cuda/load_decoder_cuda.h"
#include "model/cuda/shard_cuda.h"
#include "model/gpu_need.h"

namespace forerun::cuda {
namespace {

Result<int64_t> bytes_of(const Checkpoint& checkpoint, const FusedLinear& linear) {
  if (linear.outputs == 0) return int64_t{0};
  FORERUN_ASSIGN_OR_RETURN(const std::vector<LinearSource> sources,
                           find_sources(checkpoint, linear));
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_fused(linear, sources));
  return static_cast<int64_t>(plan.weight_bytes());
}

Result<int64_t> weight_bytes(const Checkpoint& checkpoint, const ShardLayoutCuda& layout) {
  const ModelConfig& config = checkpoint.config();
  int64_t bytes = int64_t{config.vocab_size} * config.hidden_size * 2;  // the embedding
  const FusedLinear head = head_linear(config, layout);
  if (config.tied_embeddings) {
    bytes += head.outputs * config.hidden_size * 2;
  } else {
    FORERUN_ASSIGN_OR_RETURN(const int64_t of_head, bytes_of(checkpoint, head));
    bytes += of_head;
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const LayerLinears linears =
        layer_linears(config, layout, "model.layers." + std::to_string(layer) + ".");
    for (const FusedLinear* linear : {&linears.qkv, &linears.o, &linears.gate_up, &linears.down}) {
      FORERUN_ASSIGN_OR_RETURN(const int64_t of_layer, bytes_of(checkpoint, *linear));
      bytes += of_layer;
    }
  }
  return bytes;
}

}  // namespace

Result<std::vector<DecoderCudaMemory>> estimate_decoder_cuda_memory(const Checkpoint& checkpoint,
                                                                    const ShardPlan& plan) {
  // The context of the process, kernels, graphs, and what allocations are rounded up by.
  constexpr int64_t kRest = int64_t{512} << 20;
  const ModelConfig& config = checkpoint.config();
  std::vector<DecoderCudaMemory> memories;
  for (const DeviceShard& part : plan.devices) {
    const ShardLayoutCuda layout = shard_layout_cuda(config, part);
    DecoderCudaMemory& memory = memories.emplace_back();
    FORERUN_ASSIGN_OR_RETURN(memory.weight_bytes, weight_bytes(checkpoint, layout));
    const int64_t widths = 2 * int64_t{config.hidden_size} + layout.qkv_width +
                           int64_t{layout.num_heads} * padded_head_dim_cuda(config.head_dim) +
                           layout.attended_width + layout.mlp_in.total;
    const int64_t logits = kMostWantedRows * layout.logits_stride() * 4;
    // bf16 from every rank, to two mailboxes.
    const int64_t mailboxes =
        plan.degree() == 1 ? 0 : int64_t{4} * kMostPassRows * config.hidden_size * plan.degree();
    memory.buffer_bytes = kPartialBytesCuda + static_cast<int64_t>(kStepBytesCuda) +
                          kMostPassRows * widths * 2 + logits + mailboxes + kRest;
    const PagedKvCuda layer{.num_kv_heads = layout.num_kv_heads, .head_dim = config.head_dim};
    memory.kv_block_bytes = config.num_layers * layer.layer_bytes();
  }
  return memories;
}

Status check_decoder_cuda_memory(const Checkpoint& checkpoint, const ShardPlan& plan,
                                 const DecoderCudaOptions& options) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<DecoderCudaMemory> needs,
                           estimate_decoder_cuda_memory(checkpoint, plan));
  std::vector<GpuNeed> of_parts;
  for (size_t rank = 0; rank < needs.size(); ++rank) {
    FORERUN_RETURN_IF_ERROR(use_device(options.devices[rank]));
    FORERUN_ASSIGN_OR_RETURN(int64_t free_bytes, free_memory());
    for (const GpuNeed& other : of_parts) {
      if (other.gpu == options.devices[rank]) free_bytes -= other.bytes();
    }
    of_parts.push_back({.gpu = options.devices[rank],
                        .weight_bytes = needs[rank].weight_bytes,
                        .buffer_bytes = needs[rank].buffer_bytes,
                        .kv_tokens = options.kv_blocks * kKvBlockTokens,
                        .kv_bytes = options.kv_blocks * needs[rank].kv_block_bytes,
                        .free_bytes = free_bytes});
  }
  return check_gpu_needs(of_parts);
}

}  // namespace forerun::cuda
