// Feeds text to the config.json reader. An accepted text must keep the promises of ModelConfig.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/model_config.h"

namespace {

bool sound_schemes(const forerun::QuantizationConfig& quantization) {
  const bool has_schemes = quantization.kind == forerun::QuantizationConfig::Kind::kParts;
  if (has_schemes == quantization.schemes.empty()) return false;
  for (const forerun::LayerScheme& scheme : quantization.schemes) {
    if (scheme.layout == nullptr || (scheme.bits != 4 && scheme.bits != 8)) return false;
    if (scheme.group_size < -1 || (scheme.block_size != 0 && scheme.group_size != 0)) return false;
    // Patterns were read once and must accept further lookups.
    forerun::scheme_of(quantization, "model.layers.1.mlp.down_proj");
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto head = forerun::parse_eagle3_config(text, "config.json");
  if (head.ok() && (!head->eagle3 || head->eagle3->draft_vocab_size < 1 ||
                    head->eagle3->draft_vocab_size > head->vocab_size ||
                    head->eagle3->num_taps() < 1 || head->eagle3->target_hidden_size < 1)) {
    std::abort();
  }
  const auto config = forerun::parse_model_config(text, "config.json");
  if (!config.ok()) {
    const forerun::Status status = config.status();
    const std::string& message = status.message();
    if (message.find("config.json") == message.npos || message.find('\n') != message.npos) {
      std::abort();
    }
    return 0;
  }
  const bool sound = config->num_layers > 0 && config->hidden_size > 0 && config->vocab_size > 0 &&
                     config->num_kv_heads > 0 && config->num_heads % config->num_kv_heads == 0 &&
                     config->head_dim > 0 && config->head_dim % 2 == 0 &&
                     config->max_position > 0 &&
                     config->sliding_window.size() == static_cast<size_t>(config->num_layers) &&
                     config->rope_scaling.factor >= 1.0f && config->rope_theta >= 1.0f &&
                     sound_schemes(config->quantization);
  if (!sound) std::abort();
  return 0;
}
