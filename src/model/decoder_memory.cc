#include "model/decoder_memory.h"

#include <string>

#include "checkpoint/modules.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/kv_storage.h"
#include "model/requantize.h"
#include "model/weight_packing.h"

namespace forerun {
namespace {

int64_t bytes_of(const RawTensor* tensor) { return tensor == nullptr ? 0 : stored_bytes(*tensor); }

// Returns the bytes of a vector stored as floats.
int64_t vector_bytes(const ModulePart& part) {
  return part.out.size() * static_cast<int64_t>(sizeof(float));
}

WeightFormat plain_format(DType dtype) {
  if (dtype == DType::kBf16) return WeightFormat::kBf16;
  return dtype == DType::kF16 ? WeightFormat::kF16 : WeightFormat::kF32;
}

// Returns the bytes of a part of a linear layer or of the head after the override:
// LinearWeight::bytes().
int64_t linear_bytes(const RawTensor* tensor, const ModulePart& part, WeightOverride weights,
                     Activation activation) {
  const int64_t outs = part.out.size(), ins = part.in.size();
  if (tensor == nullptr || outs == 0 || ins == 0) return 0;
  const bool is_quantized = tensor->blocks != nullptr || tensor->parts != nullptr;
  WeightFormat format = WeightFormat::kF32;
  if (const auto rounded = override_format(weights)) {
    if (ins % input_multiple(*rounded) == 0) format = *rounded;
  } else if (is_quantized) {
    if (const auto packed = packed_bytes(*tensor, part)) return *packed;
  } else {
    format = plain_format(tensor->dtype);
  }
  const bool is_paired = format == WeightFormat::kBf16 && takes_bf16_pairs(activation);
  return weight_bytes(is_paired ? WeightFormat::kBf16Pairs : format, outs, ins);
}

MemoryNeed estimate_device_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                  Activation activation, const DeviceShard& shard,
                                  const LayerRange& layers) {
  const ModelConfig& config = checkpoint.config();
  const RawTensor* embedding = checkpoint.weight({ModuleKind::kEmbedding});
  const bool head_is_copied =
      head_override(weights) != WeightOverride::kAsStored ||
      (embedding != nullptr && !embedding->is_plain()) ||
      (takes_bf16_pairs(activation) && embedding != nullptr && embedding->dtype == DType::kBf16);
  // Such a head also serves as the embedding.
  const bool is_held_once = config.tied_embeddings && layers.embeds && layers.heads &&
                            shard.has_all_vocab && embedding != nullptr &&
                            packs_embedding(*embedding, head_override(weights), activation);
  MemoryNeed memory;
  for (const Module& module : decoder_modules(config)) {
    if (!layers.holds(module.id, config)) continue;
    const ModulePart part = module_part(module, shard, config);
    if (module.has_bias) memory.weight_bytes += vector_bytes(part);
    if (module.type == ModuleType::kLinear || module.type == ModuleType::kHead) {
      const WeightOverride how =
          module.type == ModuleType::kHead ? head_override(weights) : layers_override(weights);
      memory.weight_bytes += linear_bytes(checkpoint.weight(module.id), part, how, activation);
    } else if (module.type == ModuleType::kNorm) {
      memory.weight_bytes += vector_bytes(part);
    } else if (shard.vocab.begin == 0 && !is_held_once && (layers.embeds || !head_is_copied)) {
      memory.weight_bytes += bytes_of(embedding);
    }
  }
  if (config.tied_embeddings && head_is_copied && layers.heads) {
    memory.weight_bytes += linear_bytes(embedding, {shard.vocab, {0, config.hidden_size}},
                                        head_override(weights), activation);
  }
  const DType kv_dtype = activation == Activation::kF32 ? DType::kF32 : DType::kBf16;
  memory.kv_block_bytes = kv_block_bytes(config, layers.size(), shard.kv_heads.size(), kv_dtype);
  return memory;
}

}  // namespace

MemoryNeed estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                   Activation activation) {
  const ShardPlan plan =
      make_shard_plan(checkpoint.config(), 1, checkpoint.config().vocab_size).value();
  return estimate_device_memory(checkpoint, weights, activation, plan.devices.front(),
                                LayerRange::all(checkpoint.config()));
}

std::vector<MemoryNeed> estimate_group_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                              Activation activation, const ShardPlan& plan,
                                              const LayerRange& layers, const Checkpoint* target) {
  std::vector<MemoryNeed> devices;
  for (const DeviceShard& shard : plan.devices) {
    devices.push_back(estimate_device_memory(checkpoint, weights, activation, shard, layers));
    devices.back().name = "device " + std::to_string(devices.size() - 1);
  }
  const auto& head = checkpoint.config().eagle3;
  if (head && !head->own_head && target != nullptr) {
    const bool tied = target->config().tied_embeddings;
    const RawTensor* const shared =
        target->weight({tied ? ModuleKind::kEmbedding : ModuleKind::kHead});
    const ModulePart rows{{0, head->draft_vocab_size}, {0, checkpoint.config().hidden_size}};
    devices.front().weight_bytes += linear_bytes(shared, rows, head_override(weights), activation);
  }
  return devices;
}

}  // namespace forerun
