#include "model/decoder_memory.h"

#include <string>

#include "checkpoint/decoder_tensors.h"
#include "model/kv_storage.h"

namespace forerun {
namespace {

int64_t stored_bytes(const Checkpoint& checkpoint, const std::string& name) {
  const RawTensor* tensor = checkpoint.find(name);
  return tensor == nullptr ? 0 : static_cast<int64_t>(tensor->bytes.size());
}

// Bytes of a linear layer or of the head after the override.
int64_t linear_bytes(const Checkpoint& checkpoint, const std::string& name, int64_t out, int64_t in,
                     WeightOverride weights) {
  switch (weights) {
    case WeightOverride::kInt8:
      return out * (in + 4);
    case WeightOverride::kBf16:
      return out * in * 2;
    case WeightOverride::kF32:
      return out * in * 4;
    case WeightOverride::kAsStored:
    case WeightOverride::kInt8Head:
    case WeightOverride::kInt4Head:
      break;
  }
  const int64_t plain = stored_bytes(checkpoint, name);
  if (plain > 0) return plain;
  const std::string module = name.substr(0, name.rfind(".weight"));
  // Repacked: nibbles, and a 32-bit word for each scale and its zero point.
  return stored_bytes(checkpoint, module + ".qweight") +
         stored_bytes(checkpoint, module + ".qzeros") * 8;
}

// The fraction of a linear layer that the device holds.
double share_of(const ModelConfig& config, const DeviceShard& shard, const std::string& name) {
  const auto names = [&name](const char* module) { return name.find(module) != std::string::npos; };
  const auto part = [](ShardRange range, int64_t whole) {
    return static_cast<double>(range.size()) / static_cast<double>(whole);
  };
  if (names(".k_proj.") || names(".v_proj.")) return part(shard.kv_heads, config.num_kv_heads);
  if (names(".q_proj.") || names(".o_proj.")) return part(shard.heads, config.num_heads);
  return part(shard.mlp, config.intermediate_size);
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
  const RawTensor* embedding = checkpoint.find("model.embed_tokens.weight");
  const bool head_is_copied =
      head_override(weights) != WeightOverride::kAsStored ||
      (takes_bf16_pairs(activation) && embedding != nullptr && embedding->dtype == DType::kBf16);
  MemoryNeed memory;
  for (const DecoderTensor& tensor : decoder_tensors(config)) {
    if (!layers.holds(tensor.name, config)) continue;
    if (tensor.role == TensorRole::kLinear || tensor.role == TensorRole::kHead) {
      const bool is_head = tensor.role == TensorRole::kHead;
      const double share = is_head ? head_share : share_of(config, shard, tensor.name);
      memory.weight_bytes +=
          scaled(linear_bytes(checkpoint, tensor.name, tensor.shape[0], tensor.shape[1],
                              is_head ? head_override(weights) : layers_override(weights)),
                 share);
    } else if (tensor.role != TensorRole::kEmbedding ||
               (shard.vocab.begin == 0 && (layers.embeds || !head_is_copied))) {
      memory.weight_bytes += stored_bytes(checkpoint, tensor.name);
    }
  }
  if (config.tied_embeddings && head_is_copied && layers.heads) {
    memory.weight_bytes +=
        scaled(linear_bytes(checkpoint, "model.embed_tokens.weight", config.vocab_size,
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
