#include "model/cuda/decoder_weights_cuda.h"
#include "model/cuda/load_decoder_cuda.h"
#include "model/cuda/shard_cuda.h"

namespace forerun::cuda {

DecoderCudaMemory estimate_decoder_cuda_memory(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  DecoderCudaMemory memory;
  // Layers that the int4 kernels do not take become bf16.
  const bool widens = config.quantization.kind == QuantizationConfig::Kind::kAwq &&
                      config.quantization.group_size != kInt4Group;
  for (const RawTensor& tensor : checkpoint.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    const bool nibbles = tensor.dtype == DType::kI32 && tensor.name.ends_with(".qweight");
    memory.weight_bytes += tensor.dtype == DType::kF32 ? bytes / 2
                           : widens && nibbles         ? 4 * bytes
                                                       : bytes;
  }
  if (config.tied_embeddings) {
    memory.weight_bytes += int64_t{config.vocab_size} * config.hidden_size * 2;
  }
  const QkvLayout qkv = qkv_layout(config);
  const int64_t widths = 2 * int64_t{config.hidden_size} + 3 * int64_t{qkv.width} +
                         config.intermediate_size + 2 * int64_t{config.vocab_size};
  memory.buffer_bytes = kPartialBytesCuda + static_cast<int64_t>(kStepBytesCuda) +
                        kMostPassRows * widths * 2 + (int64_t{512} << 20);
  const PagedKvCuda layer{.num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim};
  memory.kv_block_bytes = config.num_layers * layer.layer_bytes();
  return memory;
}

}  // namespace forerun::cuda
