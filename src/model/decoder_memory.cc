#include "model/decoder_memory.h"

#include <string>

#include "checkpoint/modules.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/kv_storage.h"
#include "model/weight_packing.h"

namespace forerun {
namespace {

int64_t bytes_of(const RawTensor* tensor) { return tensor == nullptr ? 0 : stored_bytes(*tensor); }

// Bytes of a linear layer or of the head after the override.
int64_t linear_bytes(const Checkpoint& checkpoint, ModuleId module, int64_t out, int64_t in,
                     WeightOverride weights) {
  if (const auto format = override_format(weights)) return weight_bytes(*format, out, in);
  const RawTensor* const tensor = checkpoint.weight(module);
  if (tensor == nullptr) return 0;
  if (tensor->blocks == nullptr && tensor->parts == nullptr) return bytes_of(tensor);
  return has_kernel(*tensor, /*on_gpus=*/false) ? packed_bytes(*tensor) : out * in * 4;
}

int64_t scaled(int64_t bytes, double share) {
  return static_cast<int64_t>(static_cast<double>(bytes) * share);
}

MemoryNeed estimate_device_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                  Activation activation, const DeviceShard& shard,
                                  const LayerRange& layers) {
  const ModelConfig& config = checkpoint.config();
  const double head_share =
      static_cast<double>(shard.vocab.size()) / static_cast<double>(config.vocab_size);
  const RawTensor* embedding = checkpoint.weight({ModuleKind::kEmbedding});
  const bool head_is_copied =
      head_override(weights) != WeightOverride::kAsStored ||
      (embedding != nullptr && !embedding->is_plain()) ||
      (takes_bf16_pairs(activation) && embedding != nullptr && embedding->dtype == DType::kBf16);
  MemoryNeed memory;
  for (const Module& module : decoder_modules(config)) {
    if (!layers.holds(module.id, config)) continue;
    memory.weight_bytes += bytes_of(module.has_bias ? checkpoint.bias(module.id) : nullptr);
    if (module.type == ModuleType::kLinear || module.type == ModuleType::kHead) {
      const WeightOverride how =
          module.type == ModuleType::kHead ? head_override(weights) : layers_override(weights);
      memory.weight_bytes += scaled(linear_bytes(checkpoint, module.id, module.out, module.in, how),
                                    module_share(module, shard, config));
    } else if (module.type != ModuleType::kEmbedding ||
               (shard.vocab.begin == 0 && (layers.embeds || !head_is_copied))) {
      memory.weight_bytes += bytes_of(checkpoint.weight(module.id));
    }
  }
  if (config.tied_embeddings && head_is_copied && layers.heads) {
    memory.weight_bytes +=
        scaled(linear_bytes(checkpoint, {ModuleKind::kEmbedding}, config.vocab_size,
                            config.hidden_size, head_override(weights)),
               head_share);
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
                                              const LayerRange& layers) {
  std::vector<MemoryNeed> devices;
  for (const DeviceShard& shard : plan.devices) {
    devices.push_back(estimate_device_memory(checkpoint, weights, activation, shard, layers));
    devices.back().name = "device " + std::to_string(devices.size() - 1);
  }
  return devices;
}

}  // namespace forerun
