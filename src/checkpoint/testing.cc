#include "checkpoint/testing.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/noise.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/modules.h"

namespace forerun {
namespace {

using Json = nlohmann::ordered_json;

// Returns the part of a spec that the writer and decoder_modules() need.
ModelConfig describe(const ToySpec& spec) {
  ModelConfig config;
  config.num_layers = spec.num_layers;
  config.hidden_size = spec.hidden_size;
  config.intermediate_size = spec.intermediate_size;
  config.num_heads = spec.num_heads;
  config.num_kv_heads = spec.num_kv_heads;
  config.head_dim = spec.head_dim.value_or(spec.hidden_size / spec.num_heads);
  config.vocab_size = spec.vocab_size;
  config.tied_embeddings = spec.tied;
  config.qk_norm = spec.family == "qwen3";
  config.qkv_bias = spec.family == "qwen2" || spec.attention_bias;
  config.o_bias = spec.family != "qwen2" && spec.attention_bias;
  config.mlp_bias = spec.mlp_bias;
  if (spec.eagle3) config.eagle3 = toy_eagle3(spec);
  return config;
}

// A module's weight, before quantization, or its bias.
struct ToyTensor {
  std::string name;
  std::vector<int64_t> shape;
  ModuleType type;
  bool is_bias;
};

std::vector<ToyTensor> unquantized_tensors(const ToySpec& spec) {
  std::vector<ToyTensor> tensors;
  for (const Module& module : decoder_modules(describe(spec))) {
    tensors.push_back({weight_name(module.id), module.shape(), module.type, false});
    if (module.has_bias) tensors.push_back({bias_name(module.id), {module.out}, module.type, true});
  }
  return tensors;
}

uint64_t hash_of(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The random numbers of one tensor.
class TensorNoise {
 public:
  TensorNoise(uint64_t seed, std::string_view name)
      : key_(seed * 0x9e3779b97f4a7c15u ^ hash_of(name)) {}
  uint32_t bits(int64_t index) const {
    return noise_bits(key_, NoiseStream::kTarget, static_cast<int32_t>(index >> 32),
                      static_cast<uint32_t>(index));
  }
  // Returns a uniform number with mean 0 and standard deviation 1.
  float unit(int64_t index) const {
    return (2.0f * noise_uniform(bits(index)) - 1.0f) * std::sqrt(3.0f);
  }

 private:
  uint64_t key_;
};

template <class T>
void store(std::vector<std::byte>& bytes, int64_t index, T value) {
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
}

void store_float(std::vector<std::byte>& bytes, int64_t index, DType dtype, float value) {
  if (dtype == DType::kBf16) {
    store(bytes, index, to_bf16(value).bits);
  } else if (dtype == DType::kF16) {
    store(bytes, index, to_f16(value).bits);
  } else {
    store(bytes, index, value);
  }
}

float rounded(DType dtype, float value) {
  if (dtype == DType::kBf16) return round_to_bf16(value);
  return dtype == DType::kF16 ? to_float(to_f16(value)) : value;
}

const char* format_name(DType dtype) {
  if (dtype == DType::kBf16) return "BF16";
  return dtype == DType::kF16 ? "F16" : "F32";
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

StoredTensor allocate(std::string name, const char* dtype, size_t element_bytes,
                      std::vector<int64_t> shape) {
  const auto count = static_cast<size_t>(element_count(shape));
  return {std::move(name), dtype, std::move(shape), std::vector<std::byte>(count * element_bytes)};
}

StoredTensor float_tensor(const ToySpec& spec, const ToyTensor& wanted) {
  float mean = 0.0f, deviation = 0.1f;
  if (wanted.type == ModuleType::kNorm) mean = 1.0f;
  if (wanted.type == ModuleType::kLinear && !wanted.is_bias) {
    deviation = 1.0f / std::sqrt(static_cast<float>(wanted.shape[1]));
  }
  if (wanted.type == ModuleType::kEmbedding || wanted.type == ModuleType::kHead) {
    deviation = spec.logit_std / std::sqrt(static_cast<float>(wanted.shape[1]));
  }
  StoredTensor tensor =
      allocate(wanted.name, format_name(spec.dtype), dtype_bytes(spec.dtype), wanted.shape);
  const TensorNoise noise(spec.seed, wanted.name);
  const TensorNoise other(spec.perturbation_seed, wanted.name);
  for (int64_t index = 0; index < element_count(wanted.shape); ++index) {
    const float unit = noise.unit(index) + spec.perturbation * other.unit(index);
    store_float(tensor.bytes, index, spec.dtype, mean + deviation * unit);
  }
  if (wanted.type != ModuleType::kEmbedding) return tensor;
  const int64_t width = wanted.shape[1];
  for (const int64_t token : spec.nan_embeddings) {
    for (int64_t index = token * width; index < (token + 1) * width; ++index) {
      store_float(tensor.bytes, index, spec.dtype, std::numeric_limits<float>::quiet_NaN());
    }
  }
  return tensor;
}

// One linear layer in int4: the values of its three tensors, before packing.
class AwqLayer {
 public:
  AwqLayer(const ToySpec& spec, const ToyTensor& wanted)
      : spec_(spec),
        out_(wanted.shape[0]),
        in_(wanted.shape[1]),
        group_(spec.awq_group_size == -1 ? in_ : spec.awq_group_size),
        weight_noise_(spec.seed, wanted.name),
        zero_noise_(spec.seed, wanted.name + "/zero"),
        scale_noise_(spec.seed, wanted.name + "/scale"),
        perturbed_(spec.perturbation_seed, wanted.name) {}

  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  int64_t groups() const { return in_ / group_; }

  uint32_t nibble(int64_t row, int64_t column) const {
    const int64_t index = row * out_ + column;
    const uint32_t other = perturbed_.bits(index);
    const uint32_t bits =
        noise_uniform(other) < spec_.perturbation ? other : weight_noise_.bits(index);
    return bits & 15u;
  }
  uint32_t zero(int64_t group, int64_t column) const {
    return 5u + zero_noise_.bits(group * out_ + column) % 6u;  // 5..10
  }
  float scale(int64_t group, int64_t column) const {
    // Uniform nibbles have a standard deviation of 4.6.
    const float typical = 1.0f / (4.6f * std::sqrt(static_cast<float>(in_)));
    const float spread = 0.5f + noise_uniform(scale_noise_.bits(group * out_ + column));
    return rounded(spec_.awq_scale_dtype, typical * spread);
  }
  int64_t group_of(int64_t row) const { return row / group_; }

 private:
  const ToySpec& spec_;
  int64_t out_, in_, group_;
  TensorNoise weight_noise_, zero_noise_, scale_noise_, perturbed_;
};

// Packs `value(row, column)` of eight adjacent columns into a word, in AWQ's order.
template <class Value>
StoredTensor packed(std::string name, int64_t rows, int64_t columns, const Value& value) {
  StoredTensor tensor = allocate(std::move(name), "I32", 4, {rows, columns / 8});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t word = 0; word < columns / 8; ++word) {
      uint32_t bits = 0;
      for (int nibble = 0; nibble < 8; ++nibble) {
        bits |= value(row, word * 8 + kAwqColumnOfNibble[nibble]) << (4 * nibble);
      }
      store(tensor.bytes, row * (columns / 8) + word, bits);
    }
  }
  return tensor;
}

std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.size() - std::string_view(".weight").size());
}

void add_awq(const ToySpec& spec, const ToyTensor& wanted, std::vector<StoredTensor>& tensors) {
  const AwqLayer layer(spec, wanted);
  if (spec.quantization == ToySpec::Quantization::kAwqDequantized) {
    StoredTensor weight = allocate(wanted.name, "F32", 4, wanted.shape);
    for (int64_t column = 0; column < layer.out(); ++column) {
      for (int64_t row = 0; row < layer.in(); ++row) {
        const int64_t group = layer.group_of(row);
        const int offset = static_cast<int>(layer.nibble(row, column)) -
                           static_cast<int>(layer.zero(group, column));
        store(weight.bytes, column * layer.in() + row,
              static_cast<float>(offset) * layer.scale(group, column));
      }
    }
    tensors.push_back(std::move(weight));
    return;
  }
  const std::string module = module_of(wanted.name);
  tensors.push_back(packed(module + ".qweight", layer.in(), layer.out(),
                           [&](int64_t row, int64_t column) { return layer.nibble(row, column); }));
  tensors.push_back(
      packed(module + ".qzeros", layer.groups(), layer.out(),
             [&](int64_t group, int64_t column) { return layer.zero(group, column); }));
  StoredTensor scales = allocate(module + ".scales", format_name(spec.awq_scale_dtype),
                                 dtype_bytes(spec.awq_scale_dtype), {layer.groups(), layer.out()});
  for (int64_t group = 0; group < layer.groups(); ++group) {
    for (int64_t column = 0; column < layer.out(); ++column) {
      store_float(scales.bytes, group * layer.out() + column, spec.awq_scale_dtype,
                  layer.scale(group, column));
    }
  }
  tensors.push_back(std::move(scales));
}

Json rope_json(const ToySpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  Json rope;
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
    case RopeScaling::Kind::kFactors:  // only in GGUF files
      rope["rope_type"] = "default";
      return rope;
    case RopeScaling::Kind::kLinear:
      rope["rope_type"] = "linear";
      break;
    case RopeScaling::Kind::kLlama3:
      rope["rope_type"] = "llama3";
      rope["low_freq_factor"] = scaling.low_freq_factor;
      rope["high_freq_factor"] = scaling.high_freq_factor;
      break;
    case RopeScaling::Kind::kYarn:
      rope["rope_type"] = "yarn";
      rope["beta_fast"] = scaling.beta_fast;
      rope["beta_slow"] = scaling.beta_slow;
      rope["truncate"] = scaling.truncate;
      if (scaling.attention_factor) rope["attention_factor"] = *scaling.attention_factor;
      if (scaling.mscale) rope["mscale"] = *scaling.mscale;
      if (scaling.mscale_all_dim) rope["mscale_all_dim"] = *scaling.mscale_all_dim;
      break;
  }
  rope["factor"] = scaling.factor;
  if (scaling.kind != RopeScaling::Kind::kLinear) {
    rope["original_max_position_embeddings"] = scaling.original_max_position;
  }
  return rope;
}

void add_window(const ToySpec& spec, Json& config) {
  if (spec.family == "mistral") {
    config["sliding_window"] = spec.sliding_window == 0 ? Json() : Json(spec.sliding_window);
  }
  if (spec.family != "qwen2" && spec.family != "qwen3") return;
  config["use_sliding_window"] = spec.sliding_window != 0;
  config["sliding_window"] = spec.sliding_window == 0 ? 4096 : spec.sliding_window;
  config["max_window_layers"] = spec.max_window_layers;
  if (!spec.transformers5_config) return;
  config["layer_types"] = Json::array();
  for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const bool slides = spec.sliding_window != 0 && layer >= spec.max_window_layers;
    config["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  }
}

const char* architecture_of(const std::string& family) {
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "qwen3") return "Qwen3ForCausalLM";
  return family == "mistral" ? "MistralForCausalLM" : "LlamaForCausalLM";
}

const char* torch_name(DType dtype) {
  if (dtype == DType::kBf16) return "bfloat16";
  return dtype == DType::kF16 ? "float16" : "float32";
}

void add_token_maps(const ToySpec& spec, std::vector<StoredTensor>& tensors) {
  const int64_t rows = toy_eagle3(spec).draft_vocab_size;
  if (rows == spec.vocab_size) return;
  StoredTensor distances = allocate("d2t", "I64", sizeof(int64_t), {rows});
  StoredTensor known = allocate("t2d", "BOOL", 1, {spec.vocab_size});
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t token = row * spec.vocab_size / rows;
    store(distances.bytes, row, token - row);
    known.bytes[static_cast<size_t>(token)] = std::byte{1};
  }
  tensors.push_back(std::move(distances));
  tensors.push_back(std::move(known));
}

// Returns a head's tensor name: SpecForge calls the first layer "midlayer", and no layout has the
// prefix "model.".
std::string head_tensor_name(const ToySpec& spec, std::string name) {
  constexpr std::string_view kModel = "model.";
  constexpr std::string_view kLayer = "layers.0.";
  if (name.starts_with(kModel)) name.erase(0, kModel.size());
  if (spec.head_layout == ToySpec::HeadLayout::kSpeculators || !name.starts_with(kLayer)) {
    return name;
  }
  return name.replace(0, kLayer.size(), "midlayer.");
}

Json head_json(const ToySpec& spec, Json layer) {
  const Eagle3Config head = toy_eagle3(spec);
  const bool nested = spec.head_layout == ToySpec::HeadLayout::kSpeculators;
  const bool spec_forge = spec.head_layout == ToySpec::HeadLayout::kSpecForge;
  Json config;
  if (nested) {
    layer.erase("architectures");
    config["transformer_layer_config"] = std::move(layer);
    config["speculators_model_type"] = "eagle3";
  } else {
    config = std::move(layer);
  }
  config["architectures"] = {nested       ? "Eagle3Speculator"
                             : spec_forge ? "LlamaForCausalLMEagle3"
                                          : "Eagle3LlamaForCausalLM"};
  config["draft_vocab_size"] = head.draft_vocab_size;
  config["target_hidden_size"] = head.target_hidden_size;
  config["norm_before_residual"] = head.norm_before_residual;
  config["norm_before_fc"] = head.norm_of_taps == Eagle3Config::NormOfTaps::kTogether;
  config["fc_norm"] = head.norm_of_taps == Eagle3Config::NormOfTaps::kEach;
  if (!spec_forge) config["norm_output"] = head.feeds_back_normalized;
  if (!head.tap_layers.empty()) {
    Json& place = head.taps_name_outputs ? config["eagle_config"] : config;
    place["eagle_aux_hidden_state_layer_ids"] = head.tap_layers;
  }
  return config;
}

Status write_shards(const std::filesystem::path& dir, int32_t num_shards,
                    std::span<const StoredTensor> tensors) {
  Json index;
  const size_t count = tensors.size();
  for (int32_t shard = 0; shard < num_shards; ++shard) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard + 1, num_shards);
    const size_t begin = count * static_cast<size_t>(shard) / static_cast<size_t>(num_shards);
    const size_t end = count * static_cast<size_t>(shard + 1) / static_cast<size_t>(num_shards);
    const auto part = tensors.subspan(begin, end - begin);
    for (const StoredTensor& tensor : part) index["weight_map"][tensor.name] = name;
    FORERUN_RETURN_IF_ERROR(write_safetensors(dir / name, part));
  }
  return write_text(dir / "model.safetensors.index.json", index.dump(2));
}

}  // namespace

std::vector<StoredTensor> toy_tensors(const ToySpec& spec) {
  std::vector<StoredTensor> tensors;
  for (const ToyTensor& wanted : unquantized_tensors(spec)) {
    const bool is_linear = wanted.type == ModuleType::kLinear && !wanted.is_bias;
    if (is_linear && spec.layout != nullptr) {
      write_toy_layer(module_of(wanted.name),
                      toy_layer(spec, wanted.name, wanted.shape[0], wanted.shape[1]), tensors);
    } else if (is_linear && spec.quantization != ToySpec::Quantization::kNone) {
      add_awq(spec, wanted, tensors);
    } else {
      tensors.push_back(float_tensor(spec, wanted));
    }
  }
  constexpr std::string_view kPrefix = "model.";
  for (StoredTensor& tensor : tensors) {
    if (spec.bare_names && tensor.name.starts_with(kPrefix)) tensor.name.erase(0, kPrefix.size());
    if (spec.eagle3) tensor.name = head_tensor_name(spec, std::move(tensor.name));
  }
  if (spec.eagle3) add_token_maps(spec, tensors);
  return tensors;
}

Eagle3Config toy_eagle3(const ToySpec& spec) {
  Eagle3Config head = *spec.eagle3;
  if (head.draft_vocab_size == 0) head.draft_vocab_size = spec.vocab_size;
  return head;
}

std::string toy_config_json(const ToySpec& spec) {
  Json config;
  config["architectures"] = {architecture_of(spec.family)};
  config["model_type"] = spec.family;
  config["hidden_act"] = "silu";
  config["num_hidden_layers"] = spec.num_layers;
  config["hidden_size"] = spec.hidden_size;
  config["intermediate_size"] = spec.intermediate_size;
  config["num_attention_heads"] = spec.num_heads;
  config["num_key_value_heads"] = spec.num_kv_heads;
  config["head_dim"] = describe(spec).head_dim;
  config["vocab_size"] = spec.vocab_size;
  if (spec.live_vocab_size) config["live_vocab_size"] = *spec.live_vocab_size;
  config["max_position_embeddings"] = spec.max_position;
  config["tie_word_embeddings"] = spec.tied;
  config["rms_norm_eps"] = spec.rms_norm_eps;
  config["attention_bias"] = spec.attention_bias;
  config["mlp_bias"] = spec.mlp_bias;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = spec.eos_token_ids;
  if (spec.transformers5_config) {
    config["dtype"] = torch_name(spec.dtype);
    config["rope_parameters"] = rope_json(spec);
    config["rope_parameters"]["rope_theta"] = spec.rope_theta;
  } else {
    config["torch_dtype"] = torch_name(spec.dtype);
    config["rope_theta"] = spec.rope_theta;
    const bool scaled = spec.rope_scaling.kind != RopeScaling::Kind::kNone;
    config["rope_scaling"] = scaled ? rope_json(spec) : Json();
  }
  add_window(spec, config);
  if (spec.quantization == ToySpec::Quantization::kAwq) {
    config["quantization_config"] = {{"bits", 4},
                                     {"group_size", spec.awq_group_size},
                                     {"modules_to_not_convert", nullptr},
                                     {"quant_method", "awq"},
                                     {"version", "gemm"},
                                     {"zero_point", true}};
  }
  if (spec.layout != nullptr) config["quantization_config"] = Json::parse(spec.layout->config);
  if (spec.eagle3) config = head_json(spec, std::move(config));
  return config.dump(2);
}

Status write_toy_checkpoint(const std::filesystem::path& dir, const ToySpec& spec) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Status(StatusCode::kInternal, dir.string() + ": " + error.message());
  const auto tensors = toy_tensors(spec);
  FORERUN_RETURN_IF_ERROR(write_text(dir / "config.json", toy_config_json(spec)));
  const Json generation = {{"do_sample", false}, {"eos_token_id", spec.eos_token_ids}};
  FORERUN_RETURN_IF_ERROR(write_text(dir / "generation_config.json", generation.dump(2)));
  if (spec.num_shards > 1) return write_shards(dir, spec.num_shards, tensors);
  return write_safetensors(dir / "model.safetensors", tensors);
}

}  // namespace forerun
