// The tensors that a decoder's description implies, under the names of Hugging Face's Llama-like
// classes.
//
// Thread rules: pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"

namespace forerun {

enum class TensorRole : uint8_t { kEmbedding, kNorm, kLinear, kBias, kHead };

struct DecoderTensor {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // kLinear and kHead: [out_features][in_features]
  TensorRole role;
};

// Embedding first, then the layers in order, final norm, head (absent where tied). Names and shapes
// are those of an unquantized checkpoint: under AWQ a kLinear "x.weight" is stored as x.qweight,
// x.qzeros and x.scales.
std::vector<DecoderTensor> decoder_tensors(const ModelConfig& config);

}  // namespace forerun
