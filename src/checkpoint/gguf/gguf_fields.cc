#include "checkpoint/gguf/gguf_fields.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/printable.h"
#include "checkpoint/other_families.h"

namespace forerun {
namespace {

// The files in which a field has a meaning.
enum class Where : uint8_t { kAll, kYarn, kNoYarn, kWindow };

using Computed = double (*)(const ModelConfig&);

// A field that changes nothing at the value `neutral`, at `other`, or at the result of `computed`.
struct NeutralField {
  std::string_view name;
  double neutral = 0;
  double other = 0;
  const char* accepted = "0";
  Where where = Where::kAll;
  Computed computed = nullptr;
  // The value that llama_model_save_to_file() writes for architectures without the field: it writes
  // every field that llama.cpp knows. Accepted only in its files.
  std::optional<double> saved = std::nullopt;
};

double head_width(const ModelConfig& config) { return config.head_dim; }
double softmax_scale(const ModelConfig& config) { return 1.0 / std::sqrt(head_width(config)); }
double hidden_width(const ModelConfig& config) { return config.hidden_size; }
double rope_base(const ModelConfig& config) { return config.rope_theta; }
double yarn_magnitude(const ModelConfig& config) {
  const double factor = std::max(1.0, static_cast<double>(config.rope_scaling.factor));
  return config.rope_scaling.attention_factor.value_or(1.0 + 0.1 * std::log(factor));
}

constexpr const char* kTheSameInAll = "the same in layers with and without a sliding window";

constexpr NeutralField kNeutralFields[] = {
    {.name = "expert_count", .accepted = "0: mixtures of experts are not read"},
    {.name = "attention.causal", .neutral = 1, .other = 1, .accepted = "true"},
    {.name = "use_parallel_residual", .accepted = "false"},
    {.name = "swin_norm", .accepted = "false"},
    {.name = "logit_scale", .other = 1, .accepted = "1"},
    {.name = "residual_scale", .other = 1, .accepted = "1"},
    {.name = "embedding_scale", .other = 1, .accepted = "1"},
    {.name = "attn_logit_softcapping", .saved = 50},
    {.name = "final_logit_softcapping", .saved = 30},
    {.name = "attention.scale",
     .accepted = "1 divided by the square root of a head's width",
     .computed = softmax_scale},
    {.name = "attention.clamp_kqv"},
    {.name = "attention.max_alibi_bias"},
    {.name = "attention.output_scale", .other = 1, .accepted = "1"},
    {.name = "attention.value_scale", .other = 1, .accepted = "1"},
    {.name = "attention.temperature_scale"},
    {.name = "attention.temperature_length"},
    {.name = "attention.shared_kv_layers"},
    {.name = "activation_sparsity_scale"},
    {.name = "rescale_every_n_layers"},
    {.name = "nextn_predict_layers"},
    {.name = "n_deepstack_layers"},
    {.name = "hash_layer_count"},
    {.name = "hyper_connection.count"},
    {.name = "num_loops", .other = 1, .accepted = "1"},
    {.name = "embedding_length_out", .accepted = "embedding_length", .computed = hidden_width},
    {.name = "rope.scaling.alpha", .other = 1, .accepted = "1"},
    {.name = "rope.scaling.attn_factor",
     .neutral = 1,
     .other = 1,
     .accepted = "1, unless rope.scaling.type is yarn",
     .where = Where::kNoYarn},
    {.name = "rope.scaling.yarn_log_multiplier", .where = Where::kYarn},
    {.name = "rope.scaling.yarn_ext_factor",
     .neutral = -1,
     .other = 1,
     .accepted = "1",
     .where = Where::kYarn},
    {.name = "rope.scaling.yarn_attn_factor",
     .neutral = -1,
     .accepted = "1 + 0.1 ln(rope.scaling.factor) x rope.scaling.attn_factor",
     .where = Where::kYarn,
     .computed = yarn_magnitude,
     .saved = 1},
    {.name = "attention.sliding_window_pattern",
     .neutral = -1,
     .other = -1,
     .accepted = "no such field: every layer has the window",
     .where = Where::kWindow},
    {.name = "attention.key_length_swa",
     .accepted = kTheSameInAll,
     .where = Where::kWindow,
     .computed = head_width},
    {.name = "attention.value_length_swa",
     .accepted = kTheSameInAll,
     .where = Where::kWindow,
     .computed = head_width},
    {.name = "rope.dimension_count_swa",
     .accepted = kTheSameInAll,
     .where = Where::kWindow,
     .computed = head_width},
    {.name = "rope.freq_base_swa",
     .accepted = kTheSameInAll,
     .where = Where::kWindow,
     .computed = rope_base},
};

// A text field, and the values that change nothing.
struct NeutralText {
  std::string_view name;
  std::string_view accepted[2];
};

constexpr NeutralText kNeutralTexts[] = {
    {"hidden_activation", {"silu", "swish"}},
    // The order of rows of Q and K, which also follows from the architecture.
    {"tensor_data_layout", {"Meta AI original pth", "reference"}},
};

// First the fields that gguf_config.cc and gguf_eagle3.cc read, then those that do not affect a
// dense decoder: fields of other architectures, and of tensors that are refused. A "." or "_" at
// the end stands for all names with this prefix.
constexpr std::string_view kOtherFields[] = {
    "vocab_size",
    "context_length",
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "target_layers",
    "target_hidden_size",
    "norm_before_residual",
    "norm_before_fc",

    "rope.scaling.finetuned",
    "rope.dimension_sections",  // axes of images; a text has one axis
    "attention.layer_norm_epsilon",
    "attention.group_norm_epsilon",
    "attention.group_norm_groups",
    "attention.q_lora_rank",
    "attention.kv_lora_rank",
    "attention.decay_lora_rank",
    "attention.iclr_lora_rank",
    "attention.value_residual_mix_lora_rank",
    "attention.gate_lora_rank",
    "attention.output_lora_rank",
    "attention.output_group_count",
    "attention.relative_buckets_count",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.recurrent_layers",
    "attention.compress_",
    "attention.indexer.",
    "expert_",
    "experts_per_group",
    "moe_",
    "swiglu_clamp_",
    "router_logit_softcapping",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "full_attention_interval",
    "skip_loop_final_norm",
    "deepstack_mapping",
    "hyper_connection.",
    "embedding_length_per_layer_input",
    "features_length",
    "pooling_type",
    "block_size",
    "token_shift_count",
    "time_",
    "dense_",
    "decoder_",
    "classifier.",
    "altup.",
    "convnext.",
    "kda.",
    "posnet.",
    "shortconv.",
    "ssm.",
    "wkv.",
    "xielu.",
};

bool is_known(std::string_view name) {
  const auto is_named = [name](const auto& field) { return field.name == name; };
  if (std::any_of(std::begin(kNeutralFields), std::end(kNeutralFields), is_named)) return true;
  if (std::any_of(std::begin(kNeutralTexts), std::end(kNeutralTexts), is_named)) return true;
  return std::any_of(std::begin(kOtherFields), std::end(kOtherFields), [name](auto field) {
    return field.ends_with('.') || field.ends_with('_') ? name.starts_with(field) : name == field;
  });
}

bool applies(Where where, const ModelConfig& config) {
  const bool is_yarn = config.rope_scaling.kind == RopeScaling::Kind::kYarn;
  switch (where) {
    case Where::kAll:
      return true;
    case Where::kYarn:
      return is_yarn;
    case Where::kNoYarn:
      return !is_yarn;
    case Where::kWindow:
      return std::any_of(config.sliding_window.begin(), config.sliding_window.end(),
                         [](int32_t window) { return window > 0; });
  }
  return true;
}

// Returns whether the values differ only by rounding to 32 bits.
bool is_near(float value, double wanted) {
  return std::abs(value - wanted) <= 1e-5 * std::abs(wanted);
}

// Writes as many digits as distinguish 32-bit floats.
std::string number_text(double number) {
  char text[32];
  for (const int digits : {6, 9}) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtof(text, nullptr) == static_cast<float>(number)) break;
  }
  return text;
}

void check_field(const NeutralField& field, GgufMetadataReader& fields, std::string_view prefix,
                 const ModelConfig& config) {
  const std::string key = std::string(prefix).append(field.name);
  if (!fields.has(key) || !applies(field.where, config)) return;
  const auto values = fields.numbers_or_booleans(key, -FLT_MAX, FLT_MAX);
  if (!values) return;
  const double other = field.computed != nullptr ? field.computed(config) : field.other;
  // No converter writes this field for these architectures.
  const bool is_saved = field.saved && fields.has(std::string(prefix) + "wkv.head_size");
  for (const float value : *values) {
    if (value == static_cast<float>(field.neutral) || is_near(value, other)) continue;
    if (is_saved && value == static_cast<float>(*field.saved)) continue;
    std::string accepted = field.accepted;
    if (field.computed != nullptr) accepted = number_text(other) + ", " + accepted;
    return fields.refuse(key, accepted_or_other_engines(accepted), StatusCode::kUnsupported,
                         number_text(value));
  }
}

void check_text(const NeutralText& field, GgufMetadataReader& fields, std::string_view prefix) {
  const std::string key = std::string(prefix).append(field.name);
  const auto text = fields.string(key);
  if (!text || *text == field.accepted[0] || *text == field.accepted[1]) return;
  fields.refuse(key,
                accepted_or_other_engines(in_quotes(field.accepted[0]) + " or " +
                                          in_quotes(field.accepted[1])),
                StatusCode::kUnsupported);
}

}  // namespace

void check_gguf_fields(GgufMetadataReader& fields, std::string_view prefix,
                       const ModelConfig& config) {
  for (const NeutralField& field : kNeutralFields) check_field(field, fields, prefix, config);
  for (const NeutralText& field : kNeutralTexts) check_text(field, fields, prefix);
}

std::vector<std::string> unread_gguf_fields(const GgufFile& file) {
  GgufMetadataReader fields = file.metadata_reader();
  const std::string prefix = std::string(fields.string("general.architecture").value_or("")) + ".";
  std::vector<std::string> found;
  for (const GgufValue& value : file.metadata().values()) {
    if (!value.key.starts_with(prefix) || is_known(value.key.substr(prefix.size()))) continue;
    found.push_back(printable(value.key));
  }
  const auto tokens = fields.strings("tokenizer.ggml.tokens");
  const auto stated = fields.integer(prefix + "vocab_size", 0, INT64_MAX);
  if (tokens && stated && *stated < static_cast<int64_t>(tokens->size())) {
    found.push_back(printable(prefix) + "vocab_size (" + std::to_string(*stated) +
                    ", beside a list of " + std::to_string(tokens->size()) + " tokens)");
  }
  return found;
}

}  // namespace forerun
