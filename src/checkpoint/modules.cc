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
  std::array<std::string_view, 2> names;  // by ModuleNaming; within a layer: behind its prefix
};

constexpr std::array<std::string_view, 2> kLayerPrefixes = {"model.layers.", "blk."};

// In the order in which a row passes them.
constexpr ModuleRow kRows[] = {
    {ModuleKind::kEmbedding,
     ModuleType::kEmbedding,
     false,
     ShardAxis::kVocab,
     false,
     {"model.embed_tokens", "token_embd"}},
    {ModuleKind::kInputNorm,
     ModuleType::kNorm,
     true,
     ShardAxis::kWhole,
     false,
     {"input_layernorm", "attn_norm"}},
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

// The width of a module's outputs, or of a norm.
int64_t out_of(ModuleKind kind, const ModelConfig& config) {
  switch (kind) {
    case ModuleKind::kEmbedding:
    case ModuleKind::kHead:
      return config.vocab_size;
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
    case ModuleKind::kInputNorm:
    case ModuleKind::kO:
    case ModuleKind::kPostAttentionNorm:
    case ModuleKind::kDown:
    case ModuleKind::kFinalNorm:
      break;
  }
  return config.hidden_size;
}

int64_t in_of(const ModuleRow& row, const ModelConfig& config) {
  if (row.type == ModuleType::kNorm) return 0;
  if (row.kind == ModuleKind::kO) return int64_t{config.num_heads} * config.head_dim;
  if (row.kind == ModuleKind::kDown) return config.intermediate_size;
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

bool is_there(ModuleKind kind, const ModelConfig& config) {
  if (kind == ModuleKind::kQNorm || kind == ModuleKind::kKNorm) return config.qk_norm;
  return kind != ModuleKind::kHead || !config.tied_embeddings;
}

Module make_module(const ModuleRow& row, int32_t layer, const ModelConfig& config) {
  return {.id = {row.kind, layer},
          .type = row.type,
          .out = out_of(row.kind, config),
          .in = in_of(row, config),
          .has_bias = has_bias(row.kind, config),
          .axis = row.axis,
          .divides_inputs = row.divides_inputs};
}

// What is left of `text` behind `prefix` and a dot.
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
    if (is_there(kind, config)) modules.push_back(make_module(row_of(kind), layer, config));
  };
  add(ModuleKind::kEmbedding, -1);
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
