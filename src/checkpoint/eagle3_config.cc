// Reads the config.json of EAGLE-3 heads. SpecForge and AngelSlim write the layer's fields beside
// the head's; speculators nests the layer.
#include <algorithm>
#include <string>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/model_config.h"
#include "checkpoint/other_families.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

constexpr int64_t kMaxHeadConfigBytes = 16 << 20;

constexpr const char* kSpecForge = "LlamaForCausalLMEagle3";
constexpr const char* kHeadArchitectures[] = {kSpecForge, "Eagle3LlamaForCausalLM",
                                              "Eagle3Speculator", "Eagle3DraftModel"};

// Returns the architecture in the file, or "".
std::string stated_architecture(FieldReader& fields) {
  const auto stated = fields.strings("architectures");
  return stated && !stated->empty() ? stated->front() : "";
}

bool is_head(FieldReader& fields, const std::string& architecture) {
  return std::find(std::begin(kHeadArchitectures), std::end(kHeadArchitectures), architecture) !=
             std::end(kHeadArchitectures) ||
         fields.string("speculators_model_type").value_or("") == "eagle3";
}

std::string read_architecture(FieldReader& fields) {
  const std::string found = stated_architecture(fields);
  const bool known = std::find(std::begin(kHeadArchitectures), std::end(kHeadArchitectures),
                               found) != std::end(kHeadArchitectures);
  if (!is_head(fields, found)) {
    fields.refuse("architectures",
                  "LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, Eagle3Speculator or "
                  "Eagle3DraftModel, of an EAGLE-3 head",
                  StatusCode::kUnsupported, found.empty() ? "nothing" : in_quotes(found));
  }
  return known ? found : "Eagle3Speculator";
}

void read_taps(FieldReader& fields, FieldReader* eagle_config, Eagle3Config& head) {
  constexpr const char* kField = "eagle_aux_hidden_state_layer_ids";
  // vLLM and speculators count the layers before a tap; SGLang and SpecForge name the layer.
  head.taps_name_outputs = !fields.has(kField);
  FieldReader* const place = head.taps_name_outputs ? eagle_config : &fields;
  if (place == nullptr) return;
  const auto stated = place->integers(kField, 0, kMaxLayers);
  if (!stated) return;
  if (stated->empty() || stated->size() > kMaxTaps) {
    place->refuse(kField, "1 to " + std::to_string(kMaxTaps) + " layers",
                  StatusCode::kInvalidArgument, std::to_string(stated->size()) + " layers");
  }
  for (const int64_t layer : *stated) head.tap_layers.push_back(static_cast<int32_t>(layer));
}

// The head's flags, which are top-level fields or in "eagle_config".
class Flags {
 public:
  Flags(FieldReader& fields, FieldReader* eagle_config)
      : fields_(fields), eagle_config_(eagle_config) {}
  std::optional<bool> find(const char* field) {
    if (fields_.has(field) || eagle_config_ == nullptr) return fields_.boolean(field);
    return eagle_config_->boolean(field);
  }
  bool get(const char* field) { return find(field).value_or(false); }

 private:
  FieldReader& fields_;
  FieldReader* eagle_config_;
};

void read_norms(FieldReader& fields, Flags flags, bool is_spec_forge, Eagle3Config& head) {
  head.norm_before_residual = flags.get("norm_before_residual");
  if (flags.get("norm_before_fc")) head.norm_of_taps = Eagle3Config::NormOfTaps::kTogether;
  if (flags.get("fc_norm")) {
    if (head.norm_of_taps != Eagle3Config::NormOfTaps::kNone) {
      fields.refuse("fc_norm", "one of norm_before_fc and fc_norm, not both");
    }
    head.norm_of_taps = Eagle3Config::NormOfTaps::kEach;
    if (head.num_taps() != 3) {
      fields.refuse("fc_norm", "false, or three taps", StatusCode::kUnsupported,
                    "true with " + std::to_string(head.num_taps()) + " taps");
    }
  }
  // In SpecForge's module the flag says whether logits pass the final norm; in all others it says
  // so of features.
  const auto norm_output = flags.find("norm_output");
  if (!is_spec_forge) {
    head.feeds_back_normalized = norm_output.value_or(false);
  } else if (!norm_output.value_or(true)) {
    fields.refuse("norm_output", "true, for LlamaForCausalLMEagle3", StatusCode::kUnsupported);
  }
  if (!flags.find("use_aux_hidden_state").value_or(true)) {
    fields.refuse("eagle_config.use_aux_hidden_state", "true", StatusCode::kUnsupported, "false");
  }
}

Result<ModelConfig> read_head(const JsonDocument& document) {
  FieldReader fields(document.root());
  ModelConfig config;
  config.architecture = read_architecture(fields);
  if (!fields.ok()) return fields.status();
  auto nested = fields.object("transformer_layer_config");
  auto eagle_config = fields.object("eagle_config");
  FieldReader* const eagle_fields = eagle_config ? &*eagle_config : nullptr;
  FieldReader& layer = nested ? *nested : fields;
  // A layer of speculators without a class is Qwen3's.
  config.model_type = layer.string("model_type").value_or(nested ? "qwen3" : "llama");
  if (config.model_type != "llama" && config.model_type != "qwen3") {
    layer.refuse("model_type", accepted_or_other_engines("\"llama\" or \"qwen3\", for a head"),
                 StatusCode::kUnsupported);
  }
  if (!fields.ok()) return fields.status();
  read_quantization(fields, config);
  read_layers(layer, config);
  Eagle3Config head;
  head.draft_vocab_size = static_cast<int32_t>(
      fields.integer("draft_vocab_size", 1, config.vocab_size).value_or(config.vocab_size));
  head.target_hidden_size = static_cast<int32_t>(
      fields.integer("target_hidden_size", 1, kMaxWidth).value_or(config.hidden_size));
  read_taps(fields, eagle_fields, head);
  read_norms(fields, Flags(fields, eagle_fields), config.architecture == kSpecForge, head);
  if (!fields.ok()) return fields.status();
  config.tied_embeddings = false;
  config.eagle3 = std::move(head);
  return config;
}

// Returns the number of the target's layers before each tap.
Result<std::vector<int32_t>> taps_of(const Eagle3Config& head, int32_t target_layers) {
  std::vector<int32_t> taps = {2, target_layers / 2, target_layers - 3};
  if (!head.tap_layers.empty() && head.tap_layers != taps) {
    taps = head.tap_layers;
    for (int32_t& tap : taps) tap += head.taps_name_outputs ? 1 : 0;
  }
  for (const int32_t tap : taps) {
    if (tap >= 0 && tap <= target_layers) continue;
    return Status(StatusCode::kInvalidArgument,
                  "the head's eagle_aux_hidden_state_layer_ids: found a tap after " +
                      std::to_string(tap) + " layers; accepted: after 0 to " +
                      std::to_string(target_layers) + ", the layers of the target");
  }
  return taps;
}

}  // namespace

Result<ModelConfig> parse_eagle3_config(std::string_view text, std::string source) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::parse(text, std::move(source)));
  return read_head(document);
}

Result<ModelConfig> read_eagle3_config(const std::filesystem::path& dir) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::read(dir / "config.json", kMaxHeadConfigBytes));
  return read_head(document);
}

bool describes_eagle3(const std::filesystem::path& dir) {
  const auto document = JsonDocument::read(dir / "config.json", kMaxHeadConfigBytes);
  if (!document.ok()) return false;
  FieldReader fields(document->root());
  return is_head(fields, stated_architecture(fields)) && fields.ok();
}

Result<std::vector<int32_t>> fit_eagle3(const ModelConfig& config, const ModelConfig& target) {
  const Eagle3Config& head = *config.eagle3;
  const auto misfit = [](const char* field, int64_t found, const std::string& accepted) {
    return Status(StatusCode::kInvalidArgument, "the head's field \"" + std::string(field) +
                                                    "\": found " + std::to_string(found) +
                                                    "; accepted: " + accepted);
  };
  if (head.target_hidden_size != target.hidden_size) {
    return misfit("target_hidden_size", head.target_hidden_size,
                  std::to_string(target.hidden_size) + ", the target's hidden_size");
  }
  if (config.vocab_size < target.live_vocab_size.value_or(target.vocab_size)) {
    return misfit("vocab_size", config.vocab_size,
                  std::to_string(target.vocab_size) + ", the target's");
  }
  if (!head.own_head && head.draft_vocab_size > target.vocab_size) {
    return misfit("draft_vocab_size", head.draft_vocab_size,
                  "up to " + std::to_string(target.vocab_size) + ", whose head it uses");
  }
  return taps_of(head, target.num_layers);
}

}  // namespace forerun
