#include "checkpoint/model_config.h"

#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/other_families.h"
#include "json/field_reader.h"
#include "json/json_document.h"
#include "json/sampling_reader.h"

namespace forerun {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;

// A family's class in transformers and its config class's defaults for fields that files do leave
// out.
struct Family {
  const char* model_type;
  const char* architecture;
  int32_t max_position;
  int32_t num_kv_heads;  // 0 for as many as heads
  int32_t head_dim;      // 0 for hidden_size / num_heads
  std::optional<int32_t> bos, eos;
};

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", 2048, 0, 0, 1, 2},
    {"qwen2", "Qwen2ForCausalLM", 32768, 32, 0, std::nullopt, std::nullopt},
    {"qwen3", "Qwen3ForCausalLM", 32768, 32, 128, std::nullopt, std::nullopt},
    {"mistral", "MistralForCausalLM", 131072, 8, 0, 1, 2},
};

constexpr const char* kAcceptedArchitectures =
    "LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM or MistralForCausalLM";

const Family* read_family(FieldReader& fields) {
  const Family* by_type = nullptr;
  const Family* by_architecture = nullptr;
  const auto architectures = fields.strings("architectures");
  std::string architecture;
  if (architectures && !architectures->empty()) architecture = architectures->front();
  if (architecture == "LLaMAForCausalLM") architecture = "LlamaForCausalLM";  // before 4.28
  const std::string model_type = fields.string("model_type").value_or("");
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) by_type = &family;
    if (architecture == family.architecture) by_architecture = &family;
  }
  if (!architecture.empty() && by_architecture == nullptr) {
    fields.refuse(
        "architectures",
        std::string(kAcceptedArchitectures) + "; " + way_out_for_architecture(architecture),
        StatusCode::kUnsupported, in_quotes(architecture));
  } else if (!model_type.empty() && by_type == nullptr) {
    fields.refuse("model_type",
                  "llama, qwen2, qwen3 or mistral; " + way_out_for_architecture(model_type),
                  StatusCode::kUnsupported);
  } else if (by_type == nullptr && by_architecture == nullptr) {
    fields.refuse(
        "architectures",
        std::string(kAcceptedArchitectures) + "; take the config.json of the original repository",
        StatusCode::kUnsupported, "nothing");
  } else if (by_type != nullptr && by_architecture != nullptr && by_type != by_architecture) {
    fields.refuse("model_type", in_quotes(by_architecture->model_type) + ", as architectures says");
  }
  return by_type != nullptr ? by_type : by_architecture;
}

// Refuses fields that make files of these families compute something else.
void refuse_other_computations(FieldReader& fields) {
  const auto refuse = [&fields](const char* field, std::string_view accepted) {
    fields.refuse(field, accepted_or_other_engines(accepted), StatusCode::kUnsupported);
  };
  if (fields.truthy("is_encoder_decoder")) {
    refuse("is_encoder_decoder", "false");
  }
  for (const char* field : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (fields.truthy(field)) {
      refuse(field, "nothing: mixtures of experts are not read");
    }
  }
  for (const char* field :
       {"rope_interleaved", "use_qk_norm", "qk_layernorm", "add_cross_attention",
        "attn_logit_softcapping", "final_logit_softcapping"}) {
    if (fields.truthy(field)) refuse(field, "false");
  }
  const auto partial = fields.number("partial_rotary_factor", 0, 1);
  if (partial && *partial != 1.0f) {
    refuse("partial_rotary_factor", "1");
  }
  const auto activation = fields.string("hidden_act");
  if (activation && *activation != "silu" && *activation != "swish") {
    refuse("hidden_act", "\"silu\" or \"swish\"");
  }
}

void read_dtype(FieldReader& fields, ModelConfig& config) {
  std::optional<DType> stated;
  for (const char* field : {"torch_dtype", "dtype"}) {
    auto name = fields.string(field);
    if (!name || *name == "auto") continue;
    if (name->starts_with("torch.")) name->erase(0, 6);
    std::optional<DType> dtype;
    if (*name == "bfloat16") dtype = DType::kBf16;
    if (*name == "float16" || *name == "half") dtype = DType::kF16;
    if (*name == "float32" || *name == "float") dtype = DType::kF32;
    if (!dtype) {
      fields.refuse(field,
                    "\"bfloat16\", \"float16\" or \"float32\"; convert with transformers: "
                    "AutoModelForCausalLM.from_pretrained(DIR, dtype=\"bfloat16\")"
                    ".save_pretrained(OUT)",
                    StatusCode::kUnsupported);
    } else if (stated && *stated != *dtype) {
      fields.refuse(field, "the same as torch_dtype");
    }
    stated = dtype;
  }
  config.dtype = stated.value_or(DType::kBf16);
  config.dtype_stated = stated.has_value();
}

void read_shape(FieldReader& fields, const Family& family, ModelConfig& config) {
  const auto required = [&](const char* field, int64_t max) {
    return static_cast<int32_t>(fields.required_integer(field, 1, max));
  };
  config.num_layers = required("num_hidden_layers", kMaxLayers);
  config.hidden_size = required("hidden_size", kMaxWidth);
  config.intermediate_size = required("intermediate_size", kMaxVocab);
  config.num_heads = required("num_attention_heads", kMaxWidth);
  config.vocab_size = required("vocab_size", kMaxVocab);
  if (const auto live = fields.integer("live_vocab_size", 1, config.vocab_size)) {
    config.live_vocab_size = static_cast<int32_t>(*live);
  }
  config.max_position = static_cast<int32_t>(
      fields.integer("max_position_embeddings", 2, kMaxPosition).value_or(family.max_position));

  // Null means as many as heads in every family; only an absent field takes the class's default.
  int32_t default_kv_heads = config.num_heads;
  if (!fields.names("num_key_value_heads") && family.num_kv_heads != 0) {
    default_kv_heads = family.num_kv_heads;
  }
  config.num_kv_heads = static_cast<int32_t>(
      fields.integer("num_key_value_heads", 1, kMaxWidth).value_or(default_kv_heads));
  if (fields.ok() && config.num_heads % config.num_kv_heads != 0) {
    fields.refuse("num_key_value_heads",
                  "a divisor of num_attention_heads (" + std::to_string(config.num_heads) + ")",
                  StatusCode::kInvalidArgument, std::to_string(config.num_kv_heads));
  }

  const auto head_dim = fields.integer("head_dim", 2, kMaxWidth);
  if (head_dim || family.head_dim != 0) {
    config.head_dim = static_cast<int32_t>(head_dim.value_or(family.head_dim));
  } else if (fields.ok() && config.hidden_size % config.num_heads != 0) {
    fields.refuse("hidden_size", "a multiple of num_attention_heads (" +
                                     std::to_string(config.num_heads) + "), or head_dim given");
  } else {
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (fields.ok() && (config.head_dim < 2 || config.head_dim % 2 != 0)) {
    fields.refuse("head_dim", accepted_or_other_engines("an even number from 2"),
                  StatusCode::kUnsupported, std::to_string(config.head_dim));
  }
  if (fields.ok() && int64_t{config.num_heads} * config.head_dim > kMaxWidth) {
    fields.refuse("head_dim", "num_attention_heads x head_dim up to " + std::to_string(kMaxWidth));
  }
}

void read_biases_and_norms(FieldReader& fields, ModelConfig& config) {
  config.qk_norm = config.model_type == "qwen3";
  const bool attention_bias = fields.boolean("attention_bias").value_or(false);
  config.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  if (config.model_type == "qwen2") {
    config.qkv_bias = true;  // the class has no switch for it
  } else if (config.model_type == "mistral") {
    if (attention_bias) {
      fields.refuse("attention_bias", accepted_or_other_engines("false"), StatusCode::kUnsupported);
    }
  } else {
    config.qkv_bias = config.o_bias = attention_bias;
  }
  if (config.mlp_bias && config.model_type != "llama") {
    fields.refuse("mlp_bias", accepted_or_other_engines("false, except for llama"),
                  StatusCode::kUnsupported);
  }
  config.rms_norm_eps = fields.number("rms_norm_eps", 0, 1).value_or(1e-6f);
  config.tied_embeddings = fields.boolean("tie_word_embeddings").value_or(false);
}

// Drops negative ids, which some files use for "none".
std::vector<int32_t> read_token_ids(FieldReader& fields, const char* field) {
  std::vector<int32_t> ids;
  for (const int64_t id :
       fields.integers(field, INT32_MIN, INT32_MAX).value_or(std::vector<int64_t>())) {
    if (id >= 0) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::optional<int32_t> first_id(const std::vector<int32_t>& ids) {
  return ids.empty() ? std::nullopt : std::optional<int32_t>(ids.front());
}

void read_special_tokens(FieldReader& fields, const Family& family, ModelConfig& config) {
  config.bos_token_id =
      fields.names("bos_token_id") ? first_id(read_token_ids(fields, "bos_token_id")) : family.bos;
  if (fields.names("eos_token_id")) {
    config.eos_token_ids = read_token_ids(fields, "eos_token_id");
  } else if (family.eos) {
    config.eos_token_ids = {*family.eos};
  }
}

void read_layers_of(FieldReader& fields, const Family& family, ModelConfig& config) {
  refuse_other_computations(fields);
  read_dtype(fields, config);
  read_shape(fields, family, config);
  read_biases_and_norms(fields, config);
  read_rope(fields, config);
  read_sliding_window(fields, config);
}

Result<ModelConfig> read_document(const JsonDocument& document) {
  FieldReader fields(document.root());
  const Family* family = read_family(fields);
  if (!fields.ok()) return fields.status();
  ModelConfig config;
  config.model_type = family->model_type;
  config.architecture = family->architecture;
  read_quantization(fields, config);
  read_layers_of(fields, *family, config);
  read_special_tokens(fields, *family, config);
  if (!fields.ok()) return fields.status();
  return config;
}

}  // namespace

void read_layers(FieldReader& fields, ModelConfig& config) {
  for (const Family& family : kFamilies) {
    if (config.model_type == family.model_type) return read_layers_of(fields, family, config);
  }
}

Result<ModelConfig> parse_model_config(std::string_view text, std::string source) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::parse(text, std::move(source)));
  return read_document(document);
}

Result<ModelConfig> read_model_config(const std::filesystem::path& dir) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::read(dir / "config.json", kMaxConfigBytes));
  return read_document(document);
}

Result<GenerationDefaults> read_generation_defaults(const std::filesystem::path& dir) {
  const auto document = JsonDocument::read(dir / "generation_config.json", kMaxConfigBytes);
  GenerationDefaults defaults;
  if (!document.ok()) {
    if (document.status().code() == StatusCode::kNotFound) return defaults;
    return document.status();
  }
  FieldReader fields(document->root());
  defaults.do_sample = fields.boolean("do_sample");
  for_each_sampling_field([&](const auto& field) {
    if (field.in_generation_config) read_sampling_field(fields, field, defaults.sampling);
  });
  defaults.bos_token_id = first_id(read_token_ids(fields, "bos_token_id"));
  defaults.eos_token_ids = read_token_ids(fields, "eos_token_id");
  if (!fields.ok()) return fields.status();
  return defaults;
}

}  // namespace forerun
