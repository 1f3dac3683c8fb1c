#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "device/cuda/cuda_devices.h"
#include "model/cuda/decoder.h"
#include "model/cuda/fused_linear.h"
#include "model/cuda/head_input.h"
#include "model/cuda/load_decoder.h"
#include "model/cuda/shard.h"
#include "model/cuda/slice_uploader.h"
#include "model/cuda/tap_store.h"
#include "model/device_memory.h"

namespace forerun::cuda {
namespace {

struct WeightBytes {
  int64_t packed = 0;
  std::array<int64_t, SliceUploader::kPlaces> staged{};  // the maximum that each place has held
};

Status add_parts(const FusedLinear& linear, std::span<const LinearSource> sources,
                 WeightBytes& bytes) {
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_fused(linear, sources));
  bytes.packed += static_cast<int64_t>(plan.weight_bytes());
  const auto stage = [&bytes](size_t place, size_t staged) {
    bytes.staged[place] = std::max(bytes.staged[place], static_cast<int64_t>(staged));
  };
  for (size_t i = 0; i < sources.size() && !linear.all_zero(); ++i) {
    const Slice& out = linear.parts[i].out;
    const auto stored = format_as_stored(linear.parts[i], linear.in, sources[i]);
    if (stored == plan.format && plan.format == LinearFormat::kFp8) {
      stage(0, sources[i].fp8_codes(out, linear.in).bytes());
      stage(1, static_cast<size_t>(LinearSource::fp8_scale_count(out, linear.in)) * sizeof(float));
    } else if (stored == plan.format && sources[i].has_integers() &&
               !takes_words(linear.parts[i], linear.in, sources[i])) {
      stage(0, LinearSource::integer_block_bytes(out, linear.in, plan.format));
    } else if (stored == plan.format && is_grouped(plan.format)) {
      stage(0, sources[i].blocks(out, linear.in).rows.bytes());
    } else if (stored == plan.format) {
      const LinearSource::Int4 slices = sources[i].int4(out, linear.in);
      stage(0, slices.qweight.bytes());
      stage(1, slices.qzeros.bytes());
      stage(2, slices.scales.bytes());
    } else {
      stage(0, static_cast<size_t>(out.total * linear.in.total) * sizeof(bf16));
    }
  }
  return {};
}

Status add_linear(const Checkpoint& checkpoint, const FusedLinear& linear, WeightBytes& bytes) {
  if (linear.outputs == 0) return {};
  FORERUN_ASSIGN_OR_RETURN(const std::vector<LinearSource> sources,
                           find_sources(checkpoint, linear));
  for (const FusedRun& run : runs_of_one_format(linear, sources)) {
    FORERUN_RETURN_IF_ERROR(add_parts(run.linear, run.sources(sources), bytes));
  }
  return {};
}

Result<WeightBytes> weight_bytes(const Checkpoint& checkpoint, const ShardLayoutCuda& layout,
                                 const LayerRange& layers, WeightOverride weights,
                                 const TargetOfHead& target) {
  const ModelConfig& config = checkpoint.config();
  WeightBytes bytes;
  bool is_copied = false;
  if (has_own_embedding(config) && layers.holds({ModuleKind::kEmbedding}, config)) {
    FORERUN_ASSIGN_OR_RETURN(is_copied, tied_head_is_copied(checkpoint));
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding,
                             require_weight(checkpoint, {ModuleKind::kEmbedding}));
    // A last stage has it while the tied head is packed from it.
    if (layers.embeds || is_copied) {
      bytes.packed = static_cast<int64_t>(embedding_rows(*embedding).bytes());
    }
  } else if (target.checkpoint != nullptr && !target.embeds) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding,
                             require_weight(*target.checkpoint, {ModuleKind::kEmbedding}));
    bytes.packed = static_cast<int64_t>(embedding_rows(*embedding).bytes());
  }
  const LmHeadSource lm_head = find_lm_head(checkpoint, target.checkpoint);
  const FusedLinear head = head_linear(config, layout, weights, lm_head.module);
  if (layers.heads && is_copied && head.outputs > 0) {
    FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_fused(head, {}));
    bytes.packed += static_cast<int64_t>(plan.weight_bytes());
  } else if (layers.heads && !is_copied &&
             !(target.gpus == 1 && may_share_lm_head(config, head, layout))) {
    FORERUN_RETURN_IF_ERROR(add_linear(*lm_head.checkpoint, head, bytes));
  }
  if (config.eagle3) {
    FORERUN_RETURN_IF_ERROR(add_linear(checkpoint, tap_projection_linear(config, weights), bytes));
  }
  for (int32_t layer = layers.begin; layer < layers.end; ++layer) {
    const LayerLinears linears = layer_linears(config, layout, layer, weights);
    for (const FusedLinear* linear : {&linears.qkv, &linears.o, &linears.gate_up, &linears.down}) {
      FORERUN_RETURN_IF_ERROR(add_linear(checkpoint, *linear, bytes));
    }
  }
  return bytes;
}

}  // namespace

Result<std::vector<MemoryNeed>> estimate_decoder_cuda_memory(const Checkpoint& checkpoint,
                                                             const ShardPlan& plan,
                                                             const LayerRange& layers,
                                                             WeightOverride weights,
                                                             const TargetOfHead& target) {
  // Covers the process's context, kernels, graphs, and the rounding of allocations.
  constexpr int64_t kRest = int64_t{512} << 20;
  const ModelConfig& config = checkpoint.config();
  std::vector<MemoryNeed> memories;
  for (const DeviceShard& part : plan.devices) {
    const ShardLayoutCuda layout =
        shard_layout_cuda(config, part, static_cast<int64_t>(checkpoint.draft_tokens().size()));
    MemoryNeed& memory = memories.emplace_back();
    memory.name = "device " + std::to_string(memories.size() - 1);
    FORERUN_ASSIGN_OR_RETURN(const WeightBytes bytes,
                             weight_bytes(checkpoint, layout, layers, weights, target));
    memory.weight_bytes = bytes.packed;
    memory.staged_bytes = std::accumulate(bytes.staged.begin(), bytes.staged.end(), int64_t{0});
    const int64_t widths = 3 * int64_t{config.hidden_size} + layout.qkv_width +
                           int64_t{layout.num_heads} * padded_head_dim_cuda(config.head_dim) +
                           layout.attended_width + layout.mlp_in.total;
    const int64_t spread = layout.spreads_logits() ? layout.head_stride() : 0;
    const int64_t logits = layers.heads ? kMaxPassRows * (layout.logits_stride() + spread) * 4 : 0;
    const int64_t of_features = config.eagle3 ? HeadInputCuda::buffer_bytes(config) : 0;
    // Each of the two mailboxes receives bf16 from every rank.
    const int64_t mailboxes =
        plan.degree() == 1 ? 0 : int64_t{4} * kMaxPassRows * config.hidden_size * plan.degree();
    const int64_t of_passes = kPartialBytesCuda + static_cast<int64_t>(kStepBytesCuda) +
                              static_cast<int64_t>(LinearScratchBuffer::kBytes) +
                              kMaxPassRows * widths * 2 + logits + of_features;
    memory.buffer_bytes = std::max(of_passes, memory.staged_bytes) + mailboxes + kRest;
    const PagedKvCuda layer{.num_kv_heads = layout.num_kv_heads, .head_dim = config.head_dim};
    memory.kv_block_bytes = layers.size() * layer.layer_bytes();
  }
  return memories;
}

Status check_decoder_cuda_memory(const Checkpoint& checkpoint, const ShardPlan& plan,
                                 const DecoderCudaOptions& options) {
  const auto* const target = dynamic_cast<const DecoderCuda*>(options.target_decoder);
  TargetOfHead of_head;
  if (target != nullptr) {
    of_head = {.checkpoint = options.target,
               .gpus = target->num_shards(),
               .embeds = target->layers().embeds};
  }
  FORERUN_ASSIGN_OR_RETURN(
      std::vector<MemoryNeed> needs,
      estimate_decoder_cuda_memory(checkpoint, plan,
                                   options.layers.value_or(LayerRange::all(checkpoint.config())),
                                   options.weights, of_head));
  needs.front().buffer_bytes +=
      TapStoreCuda::bytes_of(options.taps, checkpoint.config().hidden_size);
  std::vector<DeviceMemory> memories;
  for (size_t rank = 0; rank < needs.size(); ++rank) {
    const std::string name = "cuda:" + std::to_string(options.devices[rank]);
    auto memory = std::find_if(memories.begin(), memories.end(),
                               [&name](const DeviceMemory& each) { return each.name == name; });
    if (memory == memories.end()) {
      FORERUN_RETURN_IF_ERROR(use_device(options.devices[rank]));
      FORERUN_ASSIGN_OR_RETURN(const int64_t free_bytes, free_memory());
      memories.push_back({.name = name, .available_bytes = free_bytes});
      memory = std::prev(memories.end());
    }
    memory->needs.push_back(needs[rank]);
  }
  return check_memory(memories, options.kv_blocks);
}

}  // namespace forerun::cuda
