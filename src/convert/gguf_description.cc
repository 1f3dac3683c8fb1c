#include "convert/gguf_description.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/gguf/gguf_file.h"
#include "convert/output_files.h"
#include "engine/load/model_text.h"
#include "forerun/sampling_fields.h"
#include "model/rope_frequencies.h"
#include "text/tokenizer_conversion.h"

namespace forerun {
namespace {

constexpr uint32_t kQuantizationVersion = 2;  // version of ggml's block formats

// Returns llama.cpp's number for a file with most weights in this format.
uint32_t file_type(const FileFormat& format) {
  if (format.is_float()) {
    if (format.dtype == DType::kF32) return 0;
    return format.dtype == DType::kF16 ? 1 : 32;
  }
  switch (format.blocks->format) {
    case BlockFormat::kQ4_0:
      return 2;
    case BlockFormat::kQ4_1:
      return 3;
    case BlockFormat::kQ8_0:
      return 7;
    default:
      return 1024;  // llama.cpp's "guessed"
  }
}

// Returns whether a key says how the file is stored, not what the model is. The output lacks such
// keys.
bool describes_storage(std::string_view key) {
  return key == "general.alignment" || key.starts_with("split.") ||
         key.starts_with("quantize.imatrix.");
}

// Copies metadata in their order, so that a file with unchanged formats is copied byte for byte.
void copy_metadata(const GgufFile& file, const FileFormat& format, GgufWriter& writer) {
  constexpr const char* kFileType = "general.file_type";
  constexpr const char* kVersion = "general.quantization_version";
  for (const GgufValue& value : file.metadata().values()) {
    if (value.key == kFileType) {
      writer.add(kFileType, file_type(format));
    } else if (value.key == kVersion) {
      writer.add(kVersion, kQuantizationVersion);
    } else if (!describes_storage(value.key)) {
      writer.copy(value);
    }
  }
  if (file.metadata().find(kFileType) == nullptr) writer.add(kFileType, file_type(format));
  if (file.metadata().find(kVersion) == nullptr) writer.add(kVersion, kQuantizationVersion);
}

// A describer of the model of a directory.
class Describer {
 public:
  Describer(const Checkpoint& input, GgufWriter& writer, std::vector<std::string>& notes)
      : input_(input), config_(input.config()), writer_(writer), notes_(notes) {}

  Status run(const FileFormat& format) {
    FORERUN_ASSIGN_OR_RETURN(const GgufArchitecture architecture, gguf_architecture(config_));
    prefix_ = std::string(architecture.name) + ".";
    writer_.add("general.architecture", architecture.name);
    writer_.add("general.type", "model");
    writer_.add("general.name", input_.name());
    writer_.add("general.file_type", file_type(format));
    writer_.add("general.quantization_version", kQuantizationVersion);
    describe_shape();
    FORERUN_RETURN_IF_ERROR(describe_window());
    FORERUN_RETURN_IF_ERROR(describe_rope());
    FORERUN_RETURN_IF_ERROR(describe_defaults());
    FORERUN_RETURN_IF_ERROR(describe_tokenizer());
    return describe_templates();
  }

 private:
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  void number(std::string_view name, int32_t value) {
    writer_.add(key(name), static_cast<uint32_t>(value));
  }
  Status refuse(const std::string& found, const std::string& accepted) const {
    return Status(StatusCode::kUnsupported, input_.path().string() + ": found " + found +
                                                ", which a GGUF file cannot express; accepted: " +
                                                accepted + ", or a directory as the output");
  }

  void describe_shape() {
    number("vocab_size", config_.vocab_size);
    number("context_length", config_.max_position);
    number("embedding_length", config_.hidden_size);
    number("block_count", config_.num_layers);
    number("feed_forward_length", config_.intermediate_size);
    number("attention.head_count", config_.num_heads);
    number("attention.head_count_kv", config_.num_kv_heads);
    number("attention.key_length", config_.head_dim);
    number("attention.value_length", config_.head_dim);
    number("rope.dimension_count", config_.head_dim);
    writer_.add(key("attention.layer_norm_rms_epsilon"), config_.rms_norm_eps);
    writer_.add(key("rope.freq_base"), config_.rope_theta);
  }

  Status describe_window() {
    const std::vector<int32_t>& windows = config_.sliding_window;
    const auto [least, most] = std::minmax_element(windows.begin(), windows.end());
    if (windows.empty() || *most == 0) return {};
    if (*least != *most) return refuse("a sliding window of some layers", "one of all layers");
    number("attention.sliding_window", *most);
    notes_.push_back("llama.cpp does not apply this architecture's sliding window of " +
                     std::to_string(*most) + " tokens; Forerun does");
    return {};
  }

  Status describe_rope() {
    const RopeScaling& scaling = config_.rope_scaling;
    if (scaling.kind == RopeScaling::Kind::kLinear || scaling.kind == RopeScaling::Kind::kYarn) {
      const bool is_yarn = scaling.kind == RopeScaling::Kind::kYarn;
      writer_.add(key("rope.scaling.type"), is_yarn ? "yarn" : "linear");
      writer_.add(key("rope.scaling.factor"), scaling.factor);
    }
    if (scaling.kind != RopeScaling::Kind::kYarn) return {};
    if (!scaling.truncate) return refuse("YaRN with \"truncate\": false", "true");
    // llama.cpp and other readers multiply by 1 + 0.1 ln(factor) themselves.
    const double readers_factor =
        1.0 + 0.1 * std::log(std::max(1.0, static_cast<double>(scaling.factor)));
    const double magnitude = rope_frequencies(config_).magnitude;
    number("rope.scaling.original_context_length", scaling.original_max_position);
    writer_.add(key("rope.scaling.attn_factor"), static_cast<float>(magnitude / readers_factor));
    writer_.add(key("rope.scaling.yarn_beta_fast"), scaling.beta_fast);
    writer_.add(key("rope.scaling.yarn_beta_slow"), scaling.beta_slow);
    return {};
  }

  Status describe_defaults() {
    FORERUN_ASSIGN_OR_RETURN(defaults_, input_.generation_defaults());
    SamplingOptions sampling = defaults_.sampling;
    // A file without a temperature means greedy decoding.
    if (!defaults_.do_sample.value_or(sampling.temperature.has_value())) return {};
    if (!sampling.temperature) sampling.temperature = 1.0f;
    bool penalizes = false;
    for_each_sampling_field([&](const auto& field) {
      const auto& value = sampling.*field.option;
      if (!value) return;
      writer_.add(gguf_sampling_key(field.gguf_name), *value);
      penalizes = penalizes || field.is_penalty;
    });
    if (penalizes) writer_.add(kGgufPenaltyLast, int32_t{-1});
    return {};
  }

  Status describe_tokenizer() {
    const std::filesystem::path file = input_.path() / "tokenizer.json";
    FORERUN_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(input_.path()));
    if (tokenizer.vocab_size() > config_.vocab_size) {
      return refuse("a tokenizer of " + std::to_string(tokenizer.vocab_size()) +
                        " tokens for an embedding of " + std::to_string(config_.vocab_size) +
                        " rows",
                    "at most one token for each row");
    }
    FORERUN_ASSIGN_OR_RETURN(const std::string bytes, read_side_file(file));
    const auto settings = read_side_file(input_.path() / "tokenizer_config.json");
    FORERUN_ASSIGN_OR_RETURN(
        const OwnedGgufVocabulary owned,
        to_gguf_vocabulary(bytes, file.string(), settings.ok() ? settings.value() : std::string(),
                           config_.vocab_size));
    for (const std::string& token : owned.lost_flags) {
      notes_.push_back("token " + token +
                       ": its flags lstrip, rstrip and single_word have no place in a GGUF file");
    }
    const GgufVocabulary& vocabulary = owned.vocabulary;
    writer_.add("tokenizer.ggml.model", vocabulary.model);
    writer_.add("tokenizer.ggml.pre", vocabulary.pre);
    writer_.add("tokenizer.ggml.tokens", std::span(vocabulary.tokens));
    writer_.add("tokenizer.ggml.token_type", std::span(vocabulary.types));
    if (!vocabulary.scores.empty()) {
      writer_.add("tokenizer.ggml.scores", std::span(vocabulary.scores));
    }
    if (!vocabulary.merges.empty()) {
      writer_.add("tokenizer.ggml.merges", std::span(vocabulary.merges));
    }
    writer_.add("tokenizer.ggml.add_bos_token", *vocabulary.add_bos);
    writer_.add("tokenizer.ggml.add_eos_token", *vocabulary.add_eos);
    if (vocabulary.model == "llama") {
      writer_.add("tokenizer.ggml.add_space_prefix", *vocabulary.add_space_prefix);
    }
    describe_special_tokens(tokenizer, vocabulary);
    return {};
  }

  void token(const char* name, std::optional<int32_t> id) {
    if (!id) return;
    writer_.add(std::string("tokenizer.ggml.") + name, static_cast<uint32_t>(*id));
  }

  // Adds the ids of the special tokens. The end tokens are the one that the tokenizer names, then
  // up to two others.
  void describe_special_tokens(const Tokenizer& tokenizer, const GgufVocabulary& vocabulary) {
    const auto named = [&](const char* name) -> std::optional<int32_t> {
      for (const auto& [key, text] : special_tokens()) {
        if (key == name) return tokenizer.token_id(text);
      }
      return std::nullopt;
    };
    std::vector<int32_t> ends =
        defaults_.eos_token_ids.empty() ? config_.eos_token_ids : defaults_.eos_token_ids;
    const auto first =
        std::find(ends.begin(), ends.end(), vocabulary.eos ? vocabulary.eos : named("eos_token"));
    if (first != ends.end()) std::rotate(ends.begin(), first, first + 1);
    if (ends.empty() && vocabulary.eos) ends.push_back(*vocabulary.eos);
    token("bos_token_id", vocabulary.bos ? vocabulary.bos : config_.bos_token_id);
    token("unknown_token_id", vocabulary.unk ? vocabulary.unk : named("unk_token"));
    token("padding_token_id", named("pad_token"));
    constexpr const char* kEnds[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    for (size_t i = 0; i < ends.size(); ++i) {
      if (i < std::size(kEnds)) {
        token(kEnds[i], ends[i]);
      } else {
        notes_.push_back("token " + std::to_string(ends[i]) +
                         " ends a text, too, and is left out: a GGUF file names three such tokens");
      }
    }
  }

  std::vector<std::pair<std::string, std::string>> special_tokens() const {
    const auto sources = load_chat_template_sources(input_);
    return sources.ok() ? sources->special_tokens
                        : std::vector<std::pair<std::string, std::string>>();
  }

  Status describe_templates() {
    const auto sources = load_chat_template_sources(input_);
    if (sources.status().code() == StatusCode::kNotFound) return {};
    if (!sources.ok()) return sources.status();
    writer_.add("tokenizer.chat_template", sources->regular);
    if (sources->tool_use.empty()) return {};
    constexpr std::string_view kNames[] = {"tool_use"};
    writer_.add("tokenizer.chat_templates", std::span(kNames));
    writer_.add("tokenizer.chat_template.tool_use", sources->tool_use);
    return {};
  }

  const Checkpoint& input_;
  const ModelConfig& config_;
  GgufWriter& writer_;
  std::vector<std::string>& notes_;
  std::string prefix_;
  GenerationDefaults defaults_;
};

}  // namespace

Status describe_in_gguf(const Checkpoint& input, const FileFormat& format, GgufWriter& writer,
                        std::vector<std::string>& notes) {
  if (input.gguf() != nullptr) {
    copy_metadata(*input.gguf(), format, writer);
    return {};
  }
  return Describer(input, writer, notes).run(format);
}

std::vector<float> rope_factors(const ModelConfig& config) {
  if (config.rope_scaling.kind == RopeScaling::Kind::kFactors) {
    return config.rope_scaling.pair_factors;
  }
  if (config.rope_scaling.kind != RopeScaling::Kind::kLlama3) return {};
  ModelConfig plain = config;
  plain.rope_scaling = {};
  const auto unscaled = rope_frequencies(plain).frequencies;
  const auto scaled = rope_frequencies(config).frequencies;
  std::vector<float> factors;
  for (size_t pair = 0; pair < scaled.size(); ++pair) {
    factors.push_back(static_cast<float>(unscaled[pair] / scaled[pair]));
  }
  return factors;
}

}  // namespace forerun
