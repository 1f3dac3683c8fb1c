#include "model/decoder_memory.h"

#include "checkpoint/decoder_tensors.h"
#include "model/kv_storage.h"
#include "step/step.h"

namespace forerun {
namespace {

int64_t stored_bytes(const Checkpoint& checkpoint, const std::string& name) {
  const RawTensor* tensor = checkpoint.find(name);
  return tensor == nullptr ? 0 : static_cast<int64_t>(tensor->bytes.size());
}

// Of a linear layer or head after the override.
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
      break;
  }
  const int64_t plain = stored_bytes(checkpoint, name);
  if (plain > 0) return plain;
  const std::string module = name.substr(0, name.rfind(".weight"));
  // Repacked: nibbles, and a 32-bit word for each scale and its zero point.
  return stored_bytes(checkpoint, module + ".qweight") +
         stored_bytes(checkpoint, module + ".qzeros") * 8;
}

}  // namespace

DecoderMemory estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                      Activation activation) {
  const ModelConfig& config = checkpoint.config();
  DecoderMemory memory;
  for (const DecoderTensor& tensor : decoder_tensors(config)) {
    if (tensor.role == TensorRole::kLinear || tensor.role == TensorRole::kHead) {
      memory.weight_bytes +=
          linear_bytes(checkpoint, tensor.name, tensor.shape[0], tensor.shape[1], weights);
    } else {
      memory.weight_bytes += stored_bytes(checkpoint, tensor.name);
    }
  }
  const bool converted_head = config.tied_embeddings && weights != WeightOverride::kAsStored;
  if (converted_head) {
    memory.weight_bytes += linear_bytes(checkpoint, "model.embed_tokens.weight", config.vocab_size,
                                        config.hidden_size, weights);
  }
  const DType kv_dtype = activation == Activation::kF32 ? DType::kF32 : DType::kBf16;
  memory.kv_block_bytes = kv_block_bytes(config, kv_dtype);
  memory.kv_bytes_per_token = memory.kv_block_bytes / kKvBlockTokens;
  return memory;
}

}  // namespace forerun
