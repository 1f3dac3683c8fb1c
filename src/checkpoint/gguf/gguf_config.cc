#include "checkpoint/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_eagle3.h"
#include "checkpoint/gguf/gguf_fields.h"
#include "checkpoint/gguf/gguf_special_tokens.h"
#include "checkpoint/modules.h"
#include "checkpoint/other_families.h"
#include "checkpoint/tensor_checks.h"

namespace forerun {
namespace {

constexpr const char* kArchitecture = "general.architecture";
constexpr const char* kType = "general.type";
constexpr const char* kAdapterType = "adapter.type";
constexpr const char* kQuantizationVersion = "general.quantization_version";
// ggml's present version of block formats (GGML_QNT_VERSION).
constexpr int64_t kBlocksVersion = 2;
constexpr std::string_view kEpsilon = "attention.layer_norm_rms_epsilon";

struct Architecture {
  std::string_view name;
  const char* model_type;
  const char* hugging_face;
  bool interleaves_rows;  // rows of Q and K are interleaved
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", "LlamaForCausalLM", true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false},
};
constexpr Architecture kEagle3 = {"eagle3", "llama", "LlamaForCausalLMEagle3", true};

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& each : kArchitectures) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// Returns advice for a file with an unsupported architecture.
std::string way_out(std::string_view architecture) {
  if (architecture == kEagle3.name) return way_out_for_architecture(kEagle3.hugging_face);
  if (architecture == "clip") return "this file reads images: open that of the text model instead";
  if (architecture == "internlm2") return way_out_for_architecture("InternLM2ForCausalLM");
  if (architecture == "baichuan") return way_out_for_architecture("BaichuanForCausalLM");
  if (architecture == "qwen") return way_out_for_architecture("QWenLMHeadModel");
  return way_out_for_architecture(architecture);
}

// A reader of the keys of one architecture, "llama.block_count" as "block_count".
class ConfigReader {
 public:
  explicit ConfigReader(const GgufFile& file) : file_(file), fields_(file.metadata_reader()) {}

  Result<ModelConfig> run() {
    refuse_parts_of_models();
    const std::string_view name = fields_.required_string(kArchitecture);
    const Architecture* architecture = find_architecture(name);
    if (fields_.ok() && architecture == nullptr) {
      fields_.refuse(kArchitecture, "llama, qwen2 or qwen3; " + way_out(name),
                     StatusCode::kUnsupported);
    }
    if (!fields_.ok()) return fields_.status();
    read_description(*architecture);
    read_gguf_special_tokens(fields_, config_);
    if (!fields_.ok()) return fields_.status();
    return std::move(config_);
  }

  Result<ModelConfig> run_head() {
    read_description(kEagle3);
    if (fields_.ok()) read_gguf_eagle3(file_, fields_, config_);
    if (!fields_.ok()) return fields_.status();
    return std::move(config_);
  }

 private:
  void read_description(const Architecture& architecture) {
    prefix_ = std::string(architecture.name) + ".";
    config_.model_type = architecture.model_type;
    config_.architecture = architecture.hugging_face;
    config_.dtype = DType::kBf16;
    config_.dtype_stated = true;
    read_shape();
    read_rope();
    if (fields_.ok()) check_gguf_fields(fields_, prefix_, config_);
    if (fields_.ok()) read_tensors();
    read_formats();
  }

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

  int32_t required(std::string_view name, int64_t max) {
    return static_cast<int32_t>(fields_.required_integer(key(name), 1, max));
  }
  std::optional<int32_t> integer(std::string_view name, int64_t min, int64_t max) {
    const auto value = fields_.integer(key(name), min, max);
    return value ? std::optional<int32_t>(static_cast<int32_t>(*value)) : std::nullopt;
  }

  // Reads a number that some files give for each layer. Returns unset as integer() does.
  std::optional<int32_t> integer_of_layers(std::string_view name, int64_t max) {
    const auto values = fields_.integers(key(name), 1, max);
    if (!values) return std::nullopt;
    const auto others = std::adjacent_find(values->begin(), values->end(), std::not_equal_to<>());
    if (values->empty() || others != values->end()) {
      refuse_other(name, "one number for all layers");
      return std::nullopt;
    }
    return static_cast<int32_t>(values->front());
  }
  int32_t required_of_layers(std::string_view name, int64_t max) {
    return fields_.has(key(name)) ? integer_of_layers(name, max).value_or(1) : required(name, max);
  }

  // Refuses a key that makes the model compute something else.
  void refuse_other(std::string_view name, std::string_view accepted) {
    fields_.refuse(key(name), accepted_or_other_engines(accepted), StatusCode::kUnsupported);
  }

  // Refuses files that are no model by themselves.
  void refuse_parts_of_models() {
    const std::string_view type = fields_.string(kType).value_or("model");
    // Adapters did not have general.type at first.
    if (type == "adapter" || fields_.has(kAdapterType)) {
      fields_.refuse(fields_.has(kAdapterType) ? kAdapterType : kType,
                     "model; merge the adapter into its base with llama.cpp's llama-export-lora, "
                     "and open the file that it writes",
                     StatusCode::kUnsupported);
    } else if (type != "model") {
      fields_.refuse(kType, "model; open the file of the text model instead",
                     StatusCode::kUnsupported);
    }
  }

  void read_shape() {
    config_.num_layers = required("block_count", kMaxLayers);
    config_.hidden_size = required("embedding_length", kMaxWidth);
    config_.intermediate_size = required_of_layers("feed_forward_length", kMaxVocab);
    config_.num_heads = required_of_layers("attention.head_count", kMaxWidth);
    config_.num_kv_heads =
        integer_of_layers("attention.head_count_kv", kMaxWidth).value_or(config_.num_heads);
    // A context of 1 would leave no token to generate.
    config_.max_position =
        static_cast<int32_t>(fields_.required_integer(key("context_length"), 2, kMaxPosition));
    const auto epsilon = fields_.number(key(kEpsilon), 0, 1);
    if (!epsilon) fields_.refuse(key(kEpsilon), "a number from 0 to 1");
    config_.rms_norm_eps = epsilon.value_or(1e-5f);
    if (!fields_.ok()) return;
    if (config_.num_heads % config_.num_kv_heads != 0) {
      fields_.refuse(key("attention.head_count_kv"), "a divisor of attention.head_count (" +
                                                         std::to_string(config_.num_heads) + ")");
    }
    const auto head_dim = integer("attention.key_length", 2, kMaxWidth);
    if (!head_dim && config_.hidden_size % config_.num_heads != 0) {
      fields_.refuse(key("embedding_length"), "a multiple of attention.head_count (" +
                                                  std::to_string(config_.num_heads) +
                                                  "), or attention.key_length given");
    }
    config_.head_dim = head_dim.value_or(config_.hidden_size / config_.num_heads);
    if (config_.head_dim < 2 || config_.head_dim % 2 != 0) {
      fields_.refuse(key("attention.key_length"),
                     accepted_or_other_engines("an even number from 2"), StatusCode::kUnsupported,
                     std::to_string(config_.head_dim));
    }
    for (const char* const name : {"attention.value_length", "rope.dimension_count"}) {
      const auto length = integer(name, 1, kMaxWidth);
      if (length && *length != config_.head_dim) {
        refuse_other(name, "the width of a head (" + std::to_string(config_.head_dim) + ")");
      }
    }
    const int32_t window = integer("attention.sliding_window", 0, kMaxPosition).value_or(0);
    config_.sliding_window.assign(static_cast<size_t>(config_.num_layers), window);
  }

  void read_rope() {
    config_.rope_theta = fields_.number(key("rope.freq_base"), 1, 1e12).value_or(10000.0f);
    RopeScaling& scaling = config_.rope_scaling;
    // Before rope.scaling.* there was a single key.
    const auto old_scale = fields_.number(key("rope.scale_linear"), 0, 1e6);
    const auto factor = fields_.number(key("rope.scaling.factor"), 0, 1e6);
    scaling.factor = factor.value_or(old_scale.value_or(1.0f));
    if (scaling.factor == 0.0f) scaling.factor = 1.0f;  // 0 means "none" in some files
    // If no type is named, llama.cpp scales linearly by the factor.
    const std::string_view unnamed = scaling.factor == 1.0f ? "none" : "linear";
    const std::string_view kind = fields_.string(key("rope.scaling.type")).value_or(unnamed);
    if ((kind == "linear" || kind == "yarn") && !factor && !old_scale) {
      fields_.refuse(key("rope.scaling.factor"),
                     "a number from 0, as rope.scaling.type says \"" + std::string(kind) + "\"");
    } else if (kind == "linear") {
      if (scaling.factor != 1.0f) scaling.kind = RopeScaling::Kind::kLinear;
    } else if (kind == "yarn") {
      read_yarn();
    } else if (kind != "none") {
      refuse_other("rope.scaling.type", "none, linear or yarn");
    }
    if (scaling.kind == RopeScaling::Kind::kNone) scaling.factor = 1.0f;
    if (const GgufFileTensor* const factors = file_.find(kGgufRopeFactors)) read_factors(*factors);
  }

  void read_yarn() {
    RopeScaling& scaling = config_.rope_scaling;
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.original_max_position = integer("rope.scaling.original_context_length", 1, kMaxPosition)
                                        .value_or(config_.max_position);
    // The file's factor multiplies the one that follows from `factor`; attention_factor is the
    // product.
    if (const auto factor = fields_.number(key("rope.scaling.attn_factor"), 1e-3, 1e6)) {
      scaling.attention_factor =
          static_cast<float>(*factor * (1.0 + 0.1 * std::log(std::max(1.0f, scaling.factor))));
    }
    scaling.beta_fast = fields_.number(key("rope.scaling.yarn_beta_fast"), 0, 1e6).value_or(32.0f);
    scaling.beta_slow = fields_.number(key("rope.scaling.yarn_beta_slow"), 0, 1e6).value_or(1.0f);
    const double scaled =
        static_cast<double>(scaling.original_max_position) * static_cast<double>(scaling.factor);
    config_.max_position =
        std::max(config_.max_position,
                 static_cast<int32_t>(std::min(scaled, static_cast<double>(kMaxPosition))));
  }

  // Reads the factors that llama.cpp's converter has computed for each pair of a head: Llama 3's
  // scaling.
  void read_factors(const GgufFileTensor& tensor) {
    RopeScaling& scaling = config_.rope_scaling;
    const int64_t head_pairs = config_.head_dim / 2;
    if (scaling.kind != RopeScaling::Kind::kNone) {
      return refuse_other("rope.scaling.type", "none, since the file has rope_freqs.weight");
    }
    const std::string accepted = "F32 of shape " + shape_text({{head_pairs}}) +
                                 ", a factor above 0 for each pair of a head of " +
                                 std::to_string(config_.head_dim) + " dimensions";
    if (ggml_dtype(tensor.ggml_type) != DType::kF32 || tensor.shape != std::vector{head_pairs}) {
      return fields_.refuse_tensor(
          kGgufRopeFactors,
          ggml_type_name(tensor.ggml_type) + " of shape " + shape_text(tensor.shape), accepted);
    }
    scaling.kind = RopeScaling::Kind::kFactors;
    scaling.pair_factors.resize(static_cast<size_t>(head_pairs));
    std::memcpy(scaling.pair_factors.data(), tensor.bytes.data(), tensor.bytes.size());
    for (const float factor : scaling.pair_factors) {
      if (factor > 0 && factor < 1e6f) continue;
      return fields_.refuse_tensor(kGgufRopeFactors, "the factor " + std::to_string(factor),
                                   accepted);
    }
  }

  bool has(ModuleKind kind, std::string_view part) const {
    const int32_t layer = kind == ModuleKind::kHead || kind == ModuleKind::kEmbedding ? -1 : 0;
    return file_.find(module_name({kind, layer}, ModuleNaming::kGguf) + "." + std::string(part)) !=
           nullptr;
  }

  void read_tensors() {
    config_.qkv_bias = has(ModuleKind::kQ, "bias");
    config_.o_bias = has(ModuleKind::kO, "bias");
    config_.mlp_bias = has(ModuleKind::kGate, "bias");
    config_.qk_norm = config_.model_type == "qwen3";
    config_.tied_embeddings = !has(ModuleKind::kHead, "weight");
    const GgufFileTensor* const embedding =
        file_.find(module_name({ModuleKind::kEmbedding}, ModuleNaming::kGguf) + ".weight");
    const auto tokens = fields_.strings("tokenizer.ggml.tokens");
    if (embedding != nullptr && embedding->shape.size() == 2) {
      if (embedding->shape[0] < 1 || embedding->shape[1] < 1) {
        return fields_.refuse_tensor(
            embedding->name, "shape " + shape_text(embedding->shape),
            "a row of " + std::to_string(config_.hidden_size) + " for each of the tokens");
      }
      config_.vocab_size = static_cast<int32_t>(std::min(embedding->shape[0], kMaxVocab));
      if (tokens && static_cast<int64_t>(tokens->size()) > embedding->shape[0]) {
        fields_.refuse("tokenizer.ggml.tokens",
                       "at most one for each of the " + std::to_string(embedding->shape[0]) +
                           " rows of token_embd.weight",
                       StatusCode::kCorrupt);
      }
      if (integer("vocab_size", 0, kMaxVocab).value_or(0) > config_.vocab_size) {
        fields_.refuse(key("vocab_size"),
                       "at most " + std::to_string(embedding->shape[0]) +
                           ", the number of rows of token_embd.weight",
                       StatusCode::kCorrupt);
      }
    } else {
      // An EAGLE-3 head without an embedding uses its target's.
      config_.vocab_size = integer("vocab_size", 1, kMaxVocab)
                               .value_or(static_cast<int32_t>(tokens ? tokens->size() : 0));
    }
    if (config_.vocab_size < 1) {
      fields_.refuse("tokenizer.ggml.tokens", "at least one token", StatusCode::kCorrupt);
    }
  }

  // Determines the stored formats of the linear layers.
  void read_formats() {
    std::set<DType> floats;
    double weights = 0, bytes = 0;
    int64_t widest = 0;
    for (const GgufFileTensor& tensor : file_.tensors()) {
      const auto module = find_module(tensor.name, ModuleNaming::kGguf);
      if (!module || module->id.layer < 0 || tensor.shape.size() != 2) continue;
      weights += static_cast<double>(tensor.shape[0]) * static_cast<double>(tensor.shape[1]);
      bytes += static_cast<double>(tensor.bytes.size());
      const BlockFormatInfo* const blocks = find_ggml_block_format(tensor.ggml_type);
      if (blocks == nullptr) {
        if (const auto dtype = ggml_dtype(tensor.ggml_type)) floats.insert(*dtype);
        continue;
      }
      widest = std::max(widest, blocks->weights);
    }
    if (floats.size() == 1) config_.dtype = *floats.begin();
    if (widest == 0) return;
    const auto version = fields_.integer(kQuantizationVersion, INT32_MIN, INT32_MAX);
    if (version && *version != kBlocksVersion) {
      fields_.refuse(kQuantizationVersion,
                     std::to_string(kBlocksVersion) +
                         "; convert the original again with convert_hf_to_gguf.py",
                     StatusCode::kUnsupported);
    }
    QuantizationConfig& quantization = config_.quantization;
    quantization.kind = QuantizationConfig::Kind::kBlocks;
    quantization.block_inputs = static_cast<int32_t>(widest);
    quantization.bytes_per_weight = bytes / weights;
  }

  const GgufFile& file_;
  GgufMetadataReader fields_;
  std::string prefix_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufFile& file) { return ConfigReader(file).run(); }

bool describes_eagle3(const GgufFile& file) {
  return file.metadata_reader().string(kArchitecture) == kEagle3.name;
}

Result<ModelConfig> read_gguf_eagle3_config(const GgufFile& file) {
  return ConfigReader(file).run_head();
}

Result<GgufArchitecture> gguf_architecture(const ModelConfig& config) {
  // Mistral's layers are Llama's.
  const std::string family = config.model_type == "mistral" ? "llama" : config.model_type;
  for (const Architecture& each : kArchitectures) {
    if (each.model_type == family) return GgufArchitecture{each.name, each.interleaves_rows};
  }
  return Status(StatusCode::kUnsupported,
                "found model_type " + in_quotes(config.model_type) +
                    ", which no GGUF architecture stands for; accepted: llama, mistral, qwen2, "
                    "qwen3");
}

int64_t interleaved_head(const GgufFile& file, const ModelConfig& config) {
  if (describes_eagle3(file)) return config.head_dim;
  GgufMetadataReader fields = file.metadata_reader();
  const Architecture* const architecture =
      find_architecture(fields.string(kArchitecture).value_or(""));
  return architecture != nullptr && architecture->interleaves_rows ? config.head_dim : 0;
}

}  // namespace forerun
