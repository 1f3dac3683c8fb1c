#include "engine/load/numerics_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/modules.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear.h"
#include "model/requantize.h"

namespace forerun {
namespace {

// Numbers of inputs that share a scale on a GPU.
constexpr int32_t kInt4Group = 128;
constexpr int32_t kInt8Group = 64;
// Smallest size of a large head, in bytes of bf16. A smaller head is read in 15 us (H200), about
// the variation of Step times.
constexpr int64_t kLargeHeadBytes = int64_t{64} << 20;

Result<Activation> parse_activation(const std::string& name) {
  for (Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    if (name == activation_name(activation)) return activation;
  }
  return Status(StatusCode::kInvalidArgument,
                "activations: found '" + name + "'; accepted: bf16, f32 and int8");
}

constexpr const char* kAsStored = "as_stored";
constexpr const char* kInt8Head = "int8_head";
constexpr const char* kInt4Head = "int4_head";
constexpr const char* kInt4 = "int4";
constexpr const char* kChosen = "auto";

// Returns nothing for a name that is neither in weight_names() nor int4_head or int4.
std::optional<WeightOverride> find_weights(const std::string& name) {
  if (name == kAsStored) return WeightOverride::kAsStored;
  if (name == kInt8Head) return WeightOverride::kInt8Head;
  if (name == kInt4Head) return WeightOverride::kInt4Head;
  if (name == kInt4) return WeightOverride::kInt4;
  for (const WeightFormat format : requantizable_formats()) {
    if (name == weight_format_name(format)) return requantize_to(format);
  }
  return std::nullopt;
}

Status unknown_weights(const char* field, const std::string& found,
                       const std::vector<std::string>& accepted) {
  const auto formats = weight_format_table();
  const bool is_kernels = std::any_of(formats.begin(), formats.end(),
                                      [&](const auto& format) { return found == format.name; });
  return Status(StatusCode::kInvalidArgument,
                std::string(field) + ": found '" + found + "'" +
                    (is_kernels ? ", a format that kernels read but that has no encoder" : "") +
                    "; accepted: " + list_of(accepted));
}

Result<std::optional<WeightOverride>> parse_draft_weights(const std::string& name) {
  if (name == kChosen) return std::optional<WeightOverride>();
  if (const auto weights = find_weights(name)) return weights;
  return unknown_weights("draft_weights", name, draft_weight_names());
}

// Returns whether only a draft on GPUs may use this format.
bool is_for_gpu_drafts(WeightOverride weights) {
  return weights == WeightOverride::kInt4Head || weights == WeightOverride::kInt4;
}

// Fails if a GPU cannot compute with the model's weights; the message lists what it accepts.
Status check_on_gpu(const std::string& found, WeightOverride weights, const OpenedModel& model,
                    const std::string& accepted) {
  const auto refused = [&found](const std::string& why) {
    return Status(StatusCode::kUnsupported, found + why);
  };
  if (layers_override(weights) != WeightOverride::kAsStored && weights != WeightOverride::kInt4) {
    return refused("; accepted on a GPU: " + accepted);
  }
  const int32_t group = is_for_gpu_drafts(weights)             ? kInt4Group
                        : weights == WeightOverride::kInt8Head ? kInt8Group
                                                               : 1;
  const int32_t inputs = model.checkpoint.config().hidden_size;
  if (inputs % group == 0) return Status();
  return refused(", but the model's hidden_size is " + std::to_string(inputs) +
                 "; accepted: multiples of " + std::to_string(group));
}

}  // namespace

std::vector<std::string> weight_names() {
  std::vector<std::string> names = {kAsStored};
  for (const WeightFormat format : requantizable_formats()) {
    names.emplace_back(weight_format_name(format));
  }
  names.emplace_back(kInt8Head);
  return names;
}

std::vector<std::string> draft_weight_names() {
  std::vector<std::string> names = weight_names();
  names.insert(names.begin(), kChosen);
  names.emplace_back(kInt4Head);
  names.emplace_back(kInt4);
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (size_t index = 0; index < names.size(); ++index) {
    if (index > 0) list += index + 1 < names.size() ? ", " : " and ";
    list += names[index];
  }
  return list;
}

Result<WeightOverride> parse_weights(const std::string& name) {
  const std::optional<WeightOverride> weights = find_weights(name);
  // Refuses int4 for the target: its logits would be off by about a tenth.
  if (weights && !is_for_gpu_drafts(*weights)) return *weights;
  return unknown_weights("weights", name, weight_names());
}

Result<NumericsOptions> parse_numerics(const EngineOptions& options) {
  NumericsOptions numerics;
  FORERUN_ASSIGN_OR_RETURN(numerics.activation, parse_activation(options.activations));
  FORERUN_ASSIGN_OR_RETURN(numerics.weights, parse_weights(options.weights));
  FORERUN_ASSIGN_OR_RETURN(numerics.draft_weights, parse_draft_weights(options.draft_weights));
  return numerics;
}

bool int4_head_pays(int32_t hidden_size, int32_t vocab_size) {
  return hidden_size % kInt4Group == 0 && int64_t{2} * hidden_size * vocab_size >= kLargeHeadBytes;
}

WeightOverride choose_draft_weights(const OpenedModel& draft, const ModelPlacement& placement) {
  // The bytes of their weights limit the speed of small models, and fewer bits hardly change their
  // guesses.
  const ModelConfig& config = draft.checkpoint.config();
  if (placement.on_gpus()) {
    const int32_t rows = config.eagle3
                             ? std::min(config.eagle3->draft_vocab_size, draft.live_vocab())
                             : draft.live_vocab();
    return int4_head_pays(config.hidden_size, rows) ? WeightOverride::kInt4Head
                                                    : WeightOverride::kAsStored;
  }
  // A trained head may use its target's LM head, which is larger than the rest of the head.
  return config.quantization.kind == QuantizationConfig::Kind::kNone ? WeightOverride::kInt8
                                                                     : WeightOverride::kInt8Head;
}

Status check_inputs(const std::string& found, WeightOverride weights, const ModelConfig& config) {
  const std::optional<WeightFormat> format = override_format(weights);
  if (!format) return Status();
  const int64_t multiple = input_multiple(*format);
  for (const Module& module : decoder_modules(config)) {
    if (module.type == ModuleType::kNorm || module.in % multiple == 0) continue;
    return Status(StatusCode::kUnsupported,
                  found + ", but " + module_name(module.id, ModuleNaming::kHuggingFace) + " has " +
                      std::to_string(module.in) + " inputs; accepted: multiples of " +
                      std::to_string(multiple) + ", or another format");
  }
  return Status();
}

Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel& target,
                      const OpenedModel* draft) {
  const bool target_on_gpus = placement.target.on_gpus();
  const bool draft_on_gpus = placement.of(Role::kDraft).on_gpus();
  const std::string found_draft = "draft_weights: found '" + options.draft_weights + "'";
  if (draft == nullptr && numerics.draft_weights && is_for_gpu_drafts(*numerics.draft_weights)) {
    return Status(StatusCode::kUnsupported, found_draft +
                                                ", but there is no draft model; accepted without "
                                                "one: '" +
                                                EngineOptions().draft_weights + "'");
  }
  if (draft != nullptr) {
    const WeightOverride weights = numerics.draft_weights.value_or(WeightOverride::kAsStored);
    if (draft_on_gpus) {
      FORERUN_RETURN_IF_ERROR(check_on_gpu(found_draft, weights, *draft,
                                           "auto, as_stored, int8_head, int4_head and int4"));
    } else if (is_for_gpu_drafts(weights)) {
      std::vector<std::string> accepted = draft_weight_names();
      std::erase(accepted, kInt4Head);
      std::erase(accepted, kInt4);
      return Status(StatusCode::kUnsupported,
                    found_draft + "; accepted on processors: " + list_of(accepted));
    } else {
      FORERUN_RETURN_IF_ERROR(check_inputs(found_draft, weights, draft->checkpoint.config()));
    }
  }
  const std::string found_target = "weights: found '" + options.weights + "'";
  if (!target_on_gpus) {
    FORERUN_RETURN_IF_ERROR(
        check_inputs(found_target, numerics.weights, target.checkpoint.config()));
  }
  if (!target_on_gpus && !(placement.draft && placement.draft->on_gpus())) return Status();
  if (numerics.activation != Activation::kBf16) {
    return Status(StatusCode::kUnsupported,
                  "activations: found '" + options.activations + "'; accepted on a GPU: bf16");
  }
  if (!target_on_gpus) return Status();
  return check_on_gpu(found_target, numerics.weights, target, "as_stored and int8_head");
}

}  // namespace forerun
