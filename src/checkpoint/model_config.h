// The description of a decoder-only transformer for every supported family: Llama 2/3/3.x,
// Qwen2/2.5, Qwen3, Mistral, DeepSeek-Coder, DeepSeek-R1-Distill. Families differ in data, not in
// code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "forerun/sampling_params.h"
#include "forerun/status.h"

namespace forerun {

// The conversion of positions to RoPE angles. All lengths are in tokens.
struct RopeScaling {
  enum class Kind : uint8_t { kNone, kLinear, kLlama3, kYarn, kFactors };
  Kind kind = Kind::kNone;
  float factor = 1.0f;
  // For kLlama3 and kYarn: the model's training context before scaling.
  int32_t original_max_position = 0;
  // For kLlama3.
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  // For kYarn.
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  // If absent, it follows from factor, mscale and mscale_all_dim.
  std::optional<float> attention_factor;
  std::optional<float> mscale;
  std::optional<float> mscale_all_dim;
  bool truncate = true;
  // For kFactors: divisors of the frequency of each pair, [head_dim / 2].
  std::vector<float> pair_factors = {};
};

struct WeightLayout;  // checkpoint/layouts/weight_layout.h

// The way in which several tensors store the weight of a linear layer.
struct LayerScheme {
  const WeightLayout* layout = nullptr;
  // Names, patterns or "Linear"; empty for every linear layer.
  std::vector<std::string> targets = {};
  int32_t bits = 4;          // bits per quant: 4 or 8
  int32_t group_size = 128;  // inputs that share a scale; -1 for all; 0 for floats
  // For floats: inputs and outputs that share a scale; 0 for one scale per tensor or output.
  int32_t block_size = 0;
  bool has_zeros = true;
  bool zeros_lack_one = false;  // GPTQ stores zero points minus one
  bool has_order = false;       // a tensor gives the group of each input
};

// The checkpoint's weight quantization of linear layers.
struct QuantizationConfig {
  enum class Kind : uint8_t {
    kNone,
    kParts,   // layers have schemes; safetensors
    kBlocks,  // GGUF
  };
  Kind kind = Kind::kNone;

  // For kParts.
  std::vector<LayerScheme> schemes;
  std::vector<std::string> left_out;  // layers that stay plain
  bool names_in_full = false;         // if false, `left_out` and targets are parts of names

  // For kBlocks.
  int32_t block_inputs = 0;     // inputs of the widest block
  double bytes_per_weight = 0;  // average bytes per weight
};

// The properties of an EAGLE-3 head, which guesses from hidden states of a target, its taps.
struct Eagle3Config {
  // The norm of the taps before their projection.
  enum class NormOfTaps : uint8_t {
    kNone,
    kTogether,  // one over all taps, side by side ("norm_before_fc")
    kEach,      // one per tap, for three taps ("fc_norm")
  };

  int32_t target_hidden_size = 0;
  int32_t draft_vocab_size = 0;  // rows of its LM head; Checkpoint::draft_tokens() has the tokens
  // Layer numbers from the file. If there are none, taps follow layers 2, L/2 and L - 3 of L.
  std::vector<int32_t> tap_layers;
  // If true, a number names the layer with the tapped output; if false, it counts the layers before
  // the tap.
  bool taps_name_outputs = false;
  NormOfTaps norm_of_taps = NormOfTaps::kNone;
  bool norm_before_residual = false;   // the residual stream starts as the normalized feature
  bool feeds_back_normalized = false;  // its own features have passed the final norm
  // If false, the head uses the target's.
  bool own_embedding = true;
  bool own_head = true;

  int32_t num_taps() const {
    return tap_layers.empty() ? 3 : static_cast<int32_t>(tap_layers.size());
  }
  int64_t taps_width() const { return int64_t{num_taps()} * target_hidden_size; }
};

struct ModelConfig {
  std::string model_type;      // "llama", "qwen2", "qwen3", "mistral"
  std::string architecture;    // "LlamaForCausalLM", ...
  DType dtype = DType::kBf16;  // kF32, kBf16 or kF16
  // False if config.json names no dtype; Checkpoint::open() then takes the embedding's.
  bool dtype_stated = false;

  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // given, or hidden_size / num_heads
  int32_t vocab_size = 0;    // rows of the embedding; may exceed the tokenizer's
  // Rows that carry a token, if the config gives their number (grown checkpoints do:
  // "live_vocab_size").
  std::optional<int32_t> live_vocab_size;
  // Context length in tokens, including scaling: max_position_embeddings, or max_sequence_length
  // (linear scaling) or factor x original_max_position (YaRN) if it is larger, since some files
  // keep the unscaled length in max_position_embeddings.
  int32_t max_position = 0;

  float rms_norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling;

  // The attention window of each layer in tokens, including the row's own position; 0 is unlimited.
  std::vector<int32_t> sliding_window;  // size num_layers

  bool qkv_bias = false;  // Qwen2, Llama with attention_bias
  bool o_bias = false;    // Llama with attention_bias
  bool mlp_bias = false;  // Llama with mlp_bias
  bool qk_norm = false;   // Qwen3: RMSNorm over each head of q and k before RoPE
  bool tied_embeddings = false;

  QuantizationConfig quantization;

  // Set only for an EAGLE-3 head (read_eagle3_config()). vocab_size then counts the target's
  // tokens.
  std::optional<Eagle3Config> eagle3;

  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;
};

// The checkpoint's own sampling defaults, from generation_config.json or a GGUF file's metadata;
// absent fields are unset.
struct GenerationDefaults {
  std::optional<bool> do_sample;
  SamplingOptions sampling;  // the numbers of sampling_fields.h
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;
  // Names of a GGUF file's unsupported sampling defaults.
  std::vector<std::string> not_applied;
};

// Reads `dir`/config.json. Fails with the file, the field, what was found and what is accepted.
// Reads the spellings of transformers 4 (rope_theta, rope_scaling, torch_dtype) and 5
// (rope_parameters, dtype).
Result<ModelConfig> read_model_config(const std::filesystem::path& dir);

// Parses the text of a config.json; `source` is its name in messages.
Result<ModelConfig> parse_model_config(std::string_view text, std::string source);

// Reads the config.json of an EAGLE-3 head, in the layouts of SpecForge, of vLLM and AngelSlim, and
// of speculators, which keeps the layer in "transformer_layer_config". `own_embedding` and
// `own_head` stay true, since only the tensors tell.
Result<ModelConfig> read_eagle3_config(const std::filesystem::path& dir);
// Returns whether the directory's config.json names an EAGLE-3 head; false if there is none to
// read.
bool describes_eagle3(const std::filesystem::path& dir);
Result<ModelConfig> parse_eagle3_config(std::string_view text, std::string source);

// Returns the number of the target's layers before each tap of a head. Returns kInvalidArgument,
// with what was found and what is accepted, if the head does not fit the target's width, tokens or
// layers.
Result<std::vector<int32_t>> fit_eagle3(const ModelConfig& head, const ModelConfig& target);

// Reads `dir`/generation_config.json; all fields are unset if the file is absent.
Result<GenerationDefaults> read_generation_defaults(const std::filesystem::path& dir);

}  // namespace forerun
