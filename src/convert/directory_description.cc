#include "convert/directory_description.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <system_error>

#include "base/status_macros.h"
#include "convert/gguf_description.h"
#include "convert/output_files.h"
#include "engine/load/model_text.h"
#include "forerun/sampling_fields.h"
#include "text/tokenizer_conversion.h"

namespace forerun {
namespace {

using nlohmann::ordered_json;

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kToolUseTemplate = "additional_chat_templates/tool_use.jinja";

const char* torch_name(DType dtype) {
  if (dtype == DType::kF32) return "float32";
  return dtype == DType::kF16 ? "float16" : "bfloat16";
}

// Returns the double that the shortest decimal text of `value` stands for: JSON then shows 1e-05,
// not 9.99999974e-06.
double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text - 1, value).ptr;
  *end = '\0';
  return std::strtod(text, nullptr);
}

std::string pretty(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void set_format(ordered_json& config, const DirectoryFormat& format) {
  bool is_stated = false;
  for (const char* const field : {"dtype", "torch_dtype"}) {
    if (!config.contains(field)) continue;
    config[field] = torch_name(format.dtype);
    is_stated = true;
  }
  if (!is_stated) config["torch_dtype"] = torch_name(format.dtype);
  for (const char* const field : {"quantization_config", "compression_config"}) config.erase(field);
  if (format.awq_group_size == 0) return;
  std::vector<std::string> kept = {"lm_head"};
  kept.insert(kept.end(), format.kept_modules.begin(), format.kept_modules.end());
  config["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4},          {"group_size", format.awq_group_size},
      {"version", "gemm"},     {"zero_point", true}, {"modules_to_not_convert", kept}};
}

// Returns the files that a directory copies from the input.
Result<NamedTexts> copied_files(const Checkpoint& input, const DirectoryFormat& format) {
  NamedTexts files;
  FORERUN_ASSIGN_OR_RETURN(const std::string text, read_side_file(input.path() / "config.json"));
  ordered_json config = ordered_json::parse(text, nullptr, false);
  if (!config.is_object()) {
    return Status(StatusCode::kCorrupt, (input.path() / "config.json").string() +
                                            ": found no object; accepted: a JSON object");
  }
  set_format(config, format);
  files.emplace_back("config.json", pretty(config));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(input.path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!is_side_file(name)) continue;
    FORERUN_ASSIGN_OR_RETURN(std::string bytes, read_side_file(entry.path()));
    files.emplace_back(name, std::move(bytes));
  }
  if (std::filesystem::exists(input.path() / kToolUseTemplate, error)) {
    FORERUN_ASSIGN_OR_RETURN(std::string bytes, read_side_file(input.path() / kToolUseTemplate));
    files.emplace_back(kToolUseTemplate, std::move(bytes));
  }
  return files;
}

// Returns the original context length of Llama 3's scaling, computed from a factor between 1 and
// the largest, with the bounds 1 and 4 of every published model. Returns that of the published
// models if no factor lies between.
int32_t original_context(const std::vector<float>& factors, const ModelConfig& config) {
  const double largest = factors.back();
  for (size_t pair = 0; pair < factors.size(); ++pair) {
    const double factor = factors[pair];
    if (factor < 1.01 || factor > 0.99 * largest) continue;
    const double exponent = 2.0 * static_cast<double>(pair) / config.head_dim;
    const double wavelength =
        2.0 * std::numbers::pi * std::pow(static_cast<double>(config.rope_theta), exponent);
    const double blend = (1.0 / factor - 1.0 / largest) / (1.0 - 1.0 / largest);
    return static_cast<int32_t>(std::lround(wavelength * (1.0 + 3.0 * blend)));
  }
  return 8192;
}

// Derives Llama 3's RoPE scaling from the factors that llama.cpp's converter has computed.
std::optional<RopeScaling> llama3_scaling(const ModelConfig& config) {
  const std::vector<float>& factors = config.rope_scaling.pair_factors;
  ModelConfig guess = config;
  guess.rope_scaling = {};
  guess.rope_scaling.kind = RopeScaling::Kind::kLlama3;
  guess.rope_scaling.factor = factors.back();
  guess.rope_scaling.original_max_position = original_context(factors, config);
  const std::vector<float> computed = rope_factors(guess);
  for (size_t pair = 0; pair < factors.size(); ++pair) {
    if (std::abs(computed[pair] - factors[pair]) > 1e-5f * factors[pair]) return std::nullopt;
  }
  return guess.rope_scaling;
}

Status refuse_in_directory(const Checkpoint& input, const std::string& found) {
  return Status(StatusCode::kUnsupported, input.path().string() + ": found " + found +
                                              ", for which config.json has no field; accepted: "
                                              "OUT.gguf as the output");
}

Status write_rope(const Checkpoint& input, ordered_json& json) {
  const ModelConfig& config = input.config();
  json["rope_theta"] = shortest(config.rope_theta);
  RopeScaling scaling = config.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kFactors) {
    const auto llama3 = llama3_scaling(config);
    if (!llama3) return refuse_in_directory(input, "factors of rope that are not Llama 3's");
    scaling = *llama3;
  }
  if (scaling.kind == RopeScaling::Kind::kNone) return {};
  ordered_json rope = {{"rope_type", "linear"}, {"factor", shortest(scaling.factor)}};
  if (scaling.kind != RopeScaling::Kind::kLinear) {
    rope["original_max_position_embeddings"] = scaling.original_max_position;
  }
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    rope["rope_type"] = "llama3";
    rope["low_freq_factor"] = shortest(scaling.low_freq_factor);
    rope["high_freq_factor"] = shortest(scaling.high_freq_factor);
  } else if (scaling.kind == RopeScaling::Kind::kYarn) {
    rope["rope_type"] = "yarn";
    rope["beta_fast"] = shortest(scaling.beta_fast);
    rope["beta_slow"] = shortest(scaling.beta_slow);
    if (scaling.attention_factor) rope["attention_factor"] = shortest(*scaling.attention_factor);
  }
  json["rope_scaling"] = std::move(rope);
  return {};
}

// In GGUF, Mistral's files have llama's architecture name; their window tells them apart.
const char* model_type_of(const ModelConfig& config, int32_t window) {
  return config.model_type == "llama" && window > 0 ? "mistral" : config.model_type.c_str();
}

Result<std::string> written_config(const Checkpoint& input, const DirectoryFormat& format) {
  const ModelConfig& config = input.config();
  const int32_t window = config.sliding_window.empty() ? 0 : config.sliding_window.front();
  const std::string model_type = model_type_of(config, window);
  ordered_json json = {
      {"architectures", {model_type == "mistral" ? "MistralForCausalLM" : config.architecture}},
      {"model_type", model_type},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_layers},
      {"num_attention_heads", config.num_heads},
      {"num_key_value_heads", config.num_kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocab_size},
      {"max_position_embeddings", config.max_position},
      {"rms_norm_eps", shortest(config.rms_norm_eps)},
      {"tie_word_embeddings", config.tied_embeddings}};
  FORERUN_RETURN_IF_ERROR(write_rope(input, json));
  if (model_type != "qwen2" && model_type != "mistral") json["attention_bias"] = config.qkv_bias;
  if (model_type == "llama") json["mlp_bias"] = config.mlp_bias;
  if (model_type == "mistral") json["sliding_window"] = window;
  if (model_type.starts_with("qwen")) {
    json["use_sliding_window"] = window > 0;
    if (window > 0) json["sliding_window"] = window, json["max_window_layers"] = 0;
  }
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  json["eos_token_id"] = config.eos_token_ids;
  set_format(json, format);
  std::string text = pretty(json);

  FORERUN_ASSIGN_OR_RETURN(const ModelConfig read, parse_model_config(text, "config.json"));
  if (read.qkv_bias != config.qkv_bias || read.o_bias != config.o_bias ||
      read.mlp_bias != config.mlp_bias) {
    return refuse_in_directory(input, "biases of some layers");
  }
  if (read.qk_norm != config.qk_norm || read.sliding_window != config.sliding_window) {
    return refuse_in_directory(input, "norms or windows that the family has not");
  }
  return text;
}

std::string written_defaults(const ModelConfig& config, const GenerationDefaults& defaults) {
  ordered_json json = ordered_json::object();
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  json["eos_token_id"] = config.eos_token_ids;
  json["do_sample"] = defaults.sampling.temperature.has_value();
  for_each_sampling_field([&](const auto& field) {
    const auto& value = defaults.sampling.*field.option;
    if (!value) return;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*value)>>) {
      json[field.name] = shortest(*value);
    } else {
      json[field.name] = *value;
    }
  });
  return pretty(json);
}

Result<std::string> written_tokenizer_config(const Checkpoint& input,
                                             const GgufVocabulary& vocabulary) {
  ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto name = [&](const char* field, std::optional<int32_t> id) {
    if (!id || static_cast<size_t>(*id) >= vocabulary.tokens.size()) return;
    json[field] = vocabulary.tokens[static_cast<size_t>(*id)];
  };
  const ModelConfig& config = input.config();
  name("bos_token", vocabulary.bos ? vocabulary.bos : config.bos_token_id);
  name("eos_token", vocabulary.eos);
  name("unk_token", vocabulary.unk);
  name("pad_token", vocabulary.pad);
  json["model_max_length"] = config.max_position;
  json["clean_up_tokenization_spaces"] = false;
  const auto templates = load_chat_template_sources(input);
  if (templates.ok()) {
    json["chat_template"] = templates->regular;
    if (!templates->tool_use.empty()) {
      json["chat_template"] = {{{"name", "default"}, {"template", templates->regular}},
                               {{"name", "tool_use"}, {"template", templates->tool_use}}};
    }
  } else if (templates.status().code() != StatusCode::kNotFound) {
    return templates.status();
  }
  return pretty(json);
}

// Returns the text files of a directory made from a GGUF file.
Result<NamedTexts> written_files(const Checkpoint& input, const DirectoryFormat& format) {
  NamedTexts files;
  const auto add = [&](const char* name, Result<std::string> text) -> Status {
    if (!text.ok()) return text.status();
    files.emplace_back(name, std::move(text).value());
    return {};
  };
  FORERUN_RETURN_IF_ERROR(add("config.json", written_config(input, format)));
  FORERUN_ASSIGN_OR_RETURN(const GenerationDefaults defaults, input.generation_defaults());
  FORERUN_RETURN_IF_ERROR(
      add("generation_config.json", written_defaults(input.config(), defaults)));
  FORERUN_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, read_gguf_vocabulary(*input.gguf()));
  FORERUN_RETURN_IF_ERROR(
      add("tokenizer.json", to_tokenizer_json_text(vocabulary, input.path().string())));
  FORERUN_RETURN_IF_ERROR(
      add("tokenizer_config.json", written_tokenizer_config(input, vocabulary)));
  return files;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> describe_in_directory(
    const Checkpoint& input, const DirectoryFormat& format) {
  return input.gguf() == nullptr ? copied_files(input, format) : written_files(input, format);
}

}  // namespace forerun
