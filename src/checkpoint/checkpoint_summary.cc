#include "checkpoint/checkpoint_summary.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "checkpoint/gguf/gguf_fields.h"
#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/modules.h"

namespace forerun {
namespace {

std::string short_number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  return text;
}

class Tally {
 public:
  void add(std::string_view precision, int64_t parameters, int64_t bytes) {
    summary.parameters += parameters;
    summary.weight_bytes += bytes;
    for (PrecisionShare& share : summary.by_precision) {
      if (share.precision != precision) continue;
      share.parameters += parameters;
      share.bytes += bytes;
      return;
    }
    summary.by_precision.push_back({std::string(precision), parameters, bytes});
  }

  CheckpointSummary summary;
};

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::string rope_line(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  std::string line = "RoPE theta " + short_number(config.rope_theta);
  const std::string factor = ", factor " + short_number(scaling.factor);
  const std::string over = " over " + std::to_string(scaling.original_max_position);
  if (scaling.kind == RopeScaling::Kind::kLinear) line += ", linear scaling" + factor;
  if (scaling.kind == RopeScaling::Kind::kLlama3) line += ", llama3 scaling" + factor + over;
  if (scaling.kind == RopeScaling::Kind::kFactors) line += ", scaled pair by pair as the file says";
  if (scaling.kind == RopeScaling::Kind::kYarn) line += ", YaRN scaling" + factor + over;
  return line;
}

std::string window_line(const ModelConfig& config) {
  int32_t sliding_layers = 0, window = 0;
  for (const int32_t layer_window : config.sliding_window) {
    if (layer_window == 0) continue;
    ++sliding_layers;
    window = layer_window;
  }
  if (sliding_layers == 0) return "full attention in every layer";
  return "sliding window of " + std::to_string(window) + " tokens in " +
         std::to_string(sliding_layers) + " of " + std::to_string(config.num_layers) + " layers";
}

std::string scheme_line(const LayerScheme& scheme) {
  std::string line(scheme.layout->method);
  if (scheme.group_size == 0) {
    return line + " e4m3, scales of " +
           (scheme.block_size == 0 ? "outputs or of tensors"
                                   : "blocks of " + std::to_string(scheme.block_size) + " x " +
                                         std::to_string(scheme.block_size));
  }
  line += " int" + std::to_string(scheme.bits) + ", ";
  line += scheme.group_size == -1 ? "one group an output"
                                  : "groups of " + std::to_string(scheme.group_size);
  line += scheme.has_zeros ? " with zero points" : ", symmetric";
  return line + (scheme.has_order ? ", inputs sorted by activation" : "");
}

std::vector<std::string> feature_lines(const ModelConfig& config) {
  std::vector<std::string> lines;
  std::string heads = std::to_string(config.num_heads) + " heads, " +
                      std::to_string(config.num_kv_heads) + " KV heads of " +
                      std::to_string(config.head_dim);
  if (config.num_kv_heads < config.num_heads) heads += " (grouped-query attention)";
  lines.push_back(heads);
  lines.push_back(rope_line(config));
  lines.push_back("context of " + std::to_string(config.max_position) + " tokens");
  lines.push_back(window_line(config));
  if (config.qkv_bias) {
    lines.push_back(config.o_bias ? "biases on q, k, v and o" : "biases on q, k and v");
  }
  if (config.mlp_bias) lines.push_back("biases in the feed-forward layers");
  if (config.qk_norm) lines.push_back("norms on each head of q and k");
  lines.push_back(config.tied_embeddings ? "head tied to the embedding" : "head of its own");
  for (const LayerScheme& scheme : config.quantization.schemes) {
    lines.push_back(scheme_line(scheme));
  }
  if (config.live_vocab_size) {
    lines.push_back(std::to_string(*config.live_vocab_size) + " of " +
                    std::to_string(config.vocab_size) + " vocabulary rows carry a token");
  }
  return lines;
}

}  // namespace

CheckpointSummary summarize(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  Tally tally;
  for (const Module& module : decoder_modules(config)) {
    const int64_t parameters = element_count(module.shape());
    if (const RawTensor* bias = module.has_bias ? checkpoint.bias(module.id) : nullptr) {
      tally.add(format_name(*bias), module.out, stored_bytes(*bias));
    }
    const RawTensor& tensor = *checkpoint.weight(module.id);  // open() has checked that it exists
    tally.add(format_name(tensor), parameters, stored_bytes(tensor));
  }
  CheckpointSummary summary = std::move(tally.summary);
  std::stable_sort(summary.by_precision.begin(), summary.by_precision.end(),
                   [](const auto& left, const auto& right) { return left.bytes > right.bytes; });
  int64_t all_bytes = 0;
  for (const RawTensor& tensor : checkpoint.tensors()) all_bytes += stored_bytes(tensor);
  summary.ignored_bytes = all_bytes - summary.weight_bytes;
  summary.features = feature_lines(config);
  if (checkpoint.gguf() == nullptr) return summary;
  for (const std::string& field : unread_gguf_fields(*checkpoint.gguf())) {
    summary.features.push_back("metadata that nothing reads: " + field);
  }
  return summary;
}

}  // namespace forerun
