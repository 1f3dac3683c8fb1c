#include "checkpoint/modules.h"

#include <array>
#include <charconv>

namespace forerun {
namespace {

struct ModuleRow {
  ModuleKind kind;
  ModuleType type;
  bool in_layer;
  ShardAxis axis;
  bool divides_inputs;
  std::array<std::string_view, 2> names;  // by ModuleNaming; without the prefix of a layer
};

constexpr std::array<std::string_view, 2> kLayerPrefixes = {"model.layers.", "blk."};

// Modules in the order in which a row passes them.
constexpr ModuleRow kRows[] = {
    {ModuleKind::kEmbedding,
     ModuleType::kEmbedding,
     false,
     ShardAxis::kVocab,
     false,
     {"model.embed_tokens", "token_embd"}},
    {ModuleKind::kTapNorms,
     ModuleType::kNorm,
     false,
     ShardAxis::kWhole,
     false,
     {"model.input_norm", "enc.output_norm"}},
    {ModuleKind::kTapNormLow,
     ModuleType::kNorm,
     false,
     ShardAxis::kWhole,
     false,
     {"model.fc_norm.0", "fc_norm.0"}},
    {ModuleKind::kTapNormMiddle,
     ModuleType::kNorm,
     false,
     ShardAxis::kWhole,
     false,
     {"model.fc_norm.1", "fc_norm.1"}},
    {ModuleKind::kTapNormHigh,
     ModuleType::kNorm,
     false,
     ShardAxis::kWhole,
     false,
     {"model.fc_norm.2", "fc_norm.2"}},
    {ModuleKind::kTapProjection,
     ModuleType::kLinear,
     false,
     ShardAxis::kWhole,
     false,
     {"model.fc", "fc"}},
    {ModuleKind::kInputNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"input_layernorm", "attn_norm"}},
    {ModuleKind::kHiddenNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"hidden_norm", "attn_norm_2"}},
    {ModuleKind::kQ,
     ModuleType::kLinear,
     true,
     ShardAxis::kHeads,
     false,
     {"self_attn.q_proj", "attn_q"}},
    {ModuleKind::kK,
     ModuleType::kLinear,
     true,
     ShardAxis::kKvHeads,
     false,
     {"self_attn.k_proj", "attn_k"}},
    {ModuleKind::kV,
     ModuleType::kLinear,
     true,
     ShardAxis::kKvHeads,
     false,
     {"self_attn.v_proj", "attn_v"}},
    {ModuleKind::kQNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"self_attn.q_norm", "attn_q_norm"}},
    {ModuleKind::kKNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"self_attn.k_norm", "attn_k_norm"}},
    {ModuleKind::kO,
     ModuleType::kLinear,
     true,
     ShardAxis::kHeads,
     true,
     {"self_attn.o_proj", "attn_output"}},
    {ModuleKind::kPostAttentionNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"post_attention_layernorm", "ffn_norm"}},
    {ModuleKind::kGate,
     ModuleType::kLinear,
     true,
     ShardAxis::kMlp,
     false,
     {"mlp.gate_proj", "ffn_gate"}},
    {ModuleKind::kUp, ModuleType::kLinear, true, ShardAxis::kMlp, false, {"mlp.up_proj", "ffn_up"}},
    {ModuleKind::kDown,
     ModuleType::kLinear,
     true,
     ShardAxis::kMlp,
     true,
     {"mlp.down_proj", "ffn_down"}},
    {ModuleKind::kFinalNorm,
     ModuleType::kNorm,
     false,
     ShardAxis::kWhole,
     false,
     {"model.norm", "output_norm"}},
    {ModuleKind::kHead, ModuleType::kHead, false, ShardAxis::kVocab, false, {"lm_head", "output"}},
};

const ModuleRow& row_of(ModuleKind kind) { return kRows[static_cast<size_t>(kind)]; }

std::string_view name_in(const ModuleRow& row, ModuleNaming naming) {
  return row.names[static_cast<size_t>(naming)];
}

// Returns the width of a module's outputs, or of a norm.
int64_t out_of(ModuleKind kind, const ModelConfig& config) {
  switch (kind) {
    case ModuleKind::kEmbedding:
      return config.vocab_size;
    case ModuleKind::kHead:
      return config.eagle3 ? config.eagle3->draft_vocab_size : config.vocab_size;
    case ModuleKind::kTapNorms:
      return config.eagle3 ? config.eagle3->taps_width() : 0;
    case ModuleKind::kTapNormLow:
    case ModuleKind::kTapNormMiddle:
    case ModuleKind::kTapNormHigh:
      return config.eagle3 ? config.eagle3->target_hidden_size : 0;
    case ModuleKind::kQ:
      return int64_t{config.num_heads} * config.head_dim;
    case ModuleKind::kK:
    case ModuleKind::kV:
      return int64_t{config.num_kv_heads} * config.head_dim;
    case ModuleKind::kQNorm:
    case ModuleKind::kKNorm:
      return config.head_dim;
    case ModuleKind::kGate:
    case ModuleKind::kUp:
      return config.intermediate_size;
    case ModuleKind::kTapProjection:
    case ModuleKind::kInputNorm:
    case ModuleKind::kHiddenNorm:
    case ModuleKind::kO:
    case ModuleKind::kPostAttentionNorm:
    case ModuleKind::kDown:
    case ModuleKind::kFinalNorm:
      break;
  }
  return config.hidden_size;
}

int64_t in_of(const ModuleRow& row, int32_t layer, const ModelConfig& config) {
  if (row.type == ModuleType::kNorm) return 0;
  if (row.kind == ModuleKind::kO) return int64_t{config.num_heads} * config.head_dim;
  if (row.kind == ModuleKind::kDown) return config.intermediate_size;
  if (config.eagle3) {
    if (row.kind == ModuleKind::kTapProjection) return config.eagle3->taps_width();
    // The embedding and the feature, side by side.
    const bool is_qkv =
        row.kind == ModuleKind::kQ || row.kind == ModuleKind::kK || row.kind == ModuleKind::kV;
    if (is_qkv && layer == 0) return int64_t{2} * config.hidden_size;
  }
  return config.hidden_size;
}

bool has_bias(ModuleKind kind, const ModelConfig& config) {
  switch (kind) {
    case ModuleKind::kQ:
    case ModuleKind::kK:
    case ModuleKind::kV:
      return config.qkv_bias;
    case ModuleKind::kO:
      return config.o_bias;
    case ModuleKind::kGate:
    case ModuleKind::kUp:
    case ModuleKind::kDown:
      return config.mlp_bias;
    default:
      return false;
  }
}

bool is_there(ModuleKind kind, int32_t layer, const ModelConfig& config) {
  const std::optional<Eagle3Config>& eagle3 = config.eagle3;
  switch (kind) {
    case ModuleKind::kQNorm:
    case ModuleKind::kKNorm:
      return config.qk_norm;
    case ModuleKind::kEmbedding:
      return !eagle3 || eagle3->own_embedding;
    case ModuleKind::kHead:
      return eagle3 ? eagle3->own_head : !config.tied_embeddings;
    case ModuleKind::kTapNorms:
      return eagle3 && eagle3->norm_of_taps == Eagle3Config::NormOfTaps::kTogether;
    case ModuleKind::kTapNormLow:
    case ModuleKind::kTapNormMiddle:
    case ModuleKind::kTapNormHigh:
      return eagle3 && eagle3->norm_of_taps == Eagle3Config::NormOfTaps::kEach;
    case ModuleKind::kTapProjection:
      return eagle3.has_value();
    case ModuleKind::kHiddenNorm:
      return eagle3 && layer == 0;
    default:
      return true;
  }
}

Module make_module(const ModuleRow& row, int32_t layer, const ModelConfig& config) {
  return {.id = {row.kind, layer},
          .type = row.type,
          .out = out_of(row.kind, config),
          .in = in_of(row, layer, config),
          .has_bias = has_bias(row.kind, config),
          .axis = row.axis,
          .divides_inputs = row.divides_inputs};
}

// Returns the rest of `text` behind `prefix` and a dot.
std::optional<std::string_view> behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || text.substr(prefix.size(), 1) != ".") return std::nullopt;
  return text.substr(prefix.size() + 1);
}

}  // namespace

std::vector<int64_t> Module::shape() const {
  return type == ModuleType::kNorm ? std::vector<int64_t>{out} : std::vector<int64_t>{out, in};
}

std::vector<Module> decoder_modules(const ModelConfig& config) {
  std::vector<Module> modules;
  const auto add = [&](ModuleKind kind, int32_t layer) {
    if (is_there(kind, layer, config)) modules.push_back(make_module(row_of(kind), layer, config));
  };
  add(ModuleKind::kEmbedding, -1);
  for (const ModuleKind kind :
       {ModuleKind::kTapNorms, ModuleKind::kTapNormLow, ModuleKind::kTapNormMiddle,
        ModuleKind::kTapNormHigh, ModuleKind::kTapProjection}) {
    add(kind, -1);
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const ModuleRow& row : kRows) {
      if (row.in_layer) add(row.kind, layer);
    }
  }
  add(ModuleKind::kFinalNorm, -1);
  add(ModuleKind::kHead, -1);
  return modules;
}

std::string module_name(ModuleId id, ModuleNaming naming) {
  const ModuleRow& row = row_of(id.kind);
  std::string name;
  if (row.in_layer) {
    name += kLayerPrefixes[static_cast<size_t>(naming)];
    name += std::to_string(id.layer);
    name += '.';
  }
  return name.append(name_in(row, naming));
}

std::string weight_name(ModuleId id) {
  return module_name(id, ModuleNaming::kHuggingFace) + ".weight";
}

std::string bias_name(ModuleId id) { return module_name(id, ModuleNaming::kHuggingFace) + ".bias"; }

std::optional<NamedPart> find_module(std::string_view tensor, ModuleNaming naming) {
  const std::string_view prefix = kLayerPrefixes[static_cast<size_t>(naming)];
  int32_t layer = -1;
  std::string_view rest = tensor;
  if (tensor.starts_with(prefix)) {
    const char* const end = tensor.data() + tensor.size();
    const auto [stop, error] = std::from_chars(tensor.data() + prefix.size(), end, layer);
    if (error != std::errc() || layer < 0 || stop == end || *stop != '.') return std::nullopt;
    rest = tensor.substr(static_cast<size_t>(stop + 1 - tensor.data()));
  }
  for (const ModuleRow& row : kRows) {
    if (row.in_layer != (layer >= 0)) continue;
    if (const auto part = behind(rest, name_in(row, naming))) {
      return NamedPart{{row.kind, layer}, *part};
    }
  }
  return std::nullopt;
}

}  // namespace forerun
