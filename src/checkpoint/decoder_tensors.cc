#include "checkpoint/decoder_tensors.h"

#include <utility>

namespace forerun {

std::vector<DecoderTensor> decoder_tensors(const ModelConfig& config) {
  std::vector<DecoderTensor> tensors;
  const int64_t hidden = config.hidden_size;
  const int64_t q_width = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_width = int64_t{config.num_kv_heads} * config.head_dim;
  const int64_t ffn = config.intermediate_size;
  std::string prefix;
  const auto add_linear = [&](const char* module, int64_t out, int64_t in, bool bias) {
    tensors.push_back({prefix + module + ".weight", {out, in}, TensorRole::kLinear});
    if (bias) tensors.push_back({prefix + module + ".bias", {out}, TensorRole::kBias});
  };
  const auto add_norm = [&](const char* module, int64_t width) {
    tensors.push_back({prefix + module + ".weight", {width}, TensorRole::kNorm});
  };

  tensors.push_back(
      {"model.embed_tokens.weight", {config.vocab_size, hidden}, TensorRole::kEmbedding});
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    prefix = "model.layers." + std::to_string(layer) + ".";
    add_norm("input_layernorm", hidden);
    add_linear("self_attn.q_proj", q_width, hidden, config.qkv_bias);
    add_linear("self_attn.k_proj", kv_width, hidden, config.qkv_bias);
    add_linear("self_attn.v_proj", kv_width, hidden, config.qkv_bias);
    if (config.qk_norm) {
      add_norm("self_attn.q_norm", config.head_dim);
      add_norm("self_attn.k_norm", config.head_dim);
    }
    add_linear("self_attn.o_proj", hidden, q_width, config.o_bias);
    add_norm("post_attention_layernorm", hidden);
    add_linear("mlp.gate_proj", ffn, hidden, config.mlp_bias);
    add_linear("mlp.up_proj", ffn, hidden, config.mlp_bias);
    add_linear("mlp.down_proj", hidden, ffn, config.mlp_bias);
  }
  tensors.push_back({"model.norm.weight", {hidden}, TensorRole::kNorm});
  if (!config.tied_embeddings) {
    tensors.push_back({"lm_head.weight", {config.vocab_size, hidden}, TensorRole::kHead});
  }
  return tensors;
}

}  // namespace forerun
