#include "engine/load/numerics_options.h"

#include <string>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

// Inputs that share a scale on a GPU.
constexpr int32_t kInt4Group = 128;
constexpr int32_t kInt8Group = 64;
// Bytes in bf16. A smaller head is read in 15 us (H200), about the variation of Step times.
constexpr int64_t kLargeHeadBytes = int64_t{64} << 20;

Result<Activation> parse_activation(const std::string& name) {
  for (Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    if (name == activation_name(activation)) return activation;
  }
  return Status(StatusCode::kInvalidArgument,
                "activations: found '" + name + "'; accepted: bf16, f32 and int8");
}

constexpr std::pair<const char*, WeightOverride> kWeights[] = {
    {"as_stored", WeightOverride::kAsStored},
    {"bf16", WeightOverride::kBf16},
    {"f32", WeightOverride::kF32},
    {"int8", WeightOverride::kInt8},
    {"int8_head", WeightOverride::kInt8Head},
    {"int4_head", WeightOverride::kInt4Head}};

Result<WeightOverride> parse_weights(const std::string& name) {
  for (const auto& [accepted, weights] : kWeights) {
    // Only drafts may have an int4 head: its logits are off by about a tenth.
    if (name == accepted && weights != WeightOverride::kInt4Head) return weights;
  }
  return Status(
      StatusCode::kInvalidArgument,
      "weights: found '" + name + "'; accepted: as_stored, bf16, f32, int8 and int8_head");
}

Result<std::optional<WeightOverride>> parse_draft_weights(const std::string& name) {
  if (name == "auto") return std::optional<WeightOverride>();
  for (const auto& [accepted, weights] : kWeights) {
    if (name == accepted) return std::optional(weights);
  }
  return Status(StatusCode::kInvalidArgument,
                "draft_weights: found '" + name +
                    "'; accepted: auto, as_stored, bf16, f32, int8, int8_head and int4_head");
}

// Fails where a GPU cannot compute with the model's weights, and says what it accepts.
Status check_on_gpu(const std::string& found, WeightOverride weights, const OpenedModel& model,
                    const std::string& accepted) {
  const auto refused = [&found](const std::string& why) {
    return Status(StatusCode::kUnsupported, found + why);
  };
  if (layers_override(weights) != WeightOverride::kAsStored) {
    return refused("; accepted on a GPU: " + accepted);
  }
  const int32_t group = weights == WeightOverride::kInt4Head   ? kInt4Group
                        : weights == WeightOverride::kInt8Head ? kInt8Group
                                                               : 1;
  const int32_t inputs = model.checkpoint.config().hidden_size;
  if (inputs % group == 0) return Status();
  return refused(", but the model's hidden_size is " + std::to_string(inputs) +
                 "; accepted: multiples of " + std::to_string(group));
}

}  // namespace

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
  // Small models are limited by the bytes of their weights, and fewer bits hardly change their
  // guesses.
  const ModelConfig& config = draft.checkpoint.config();
  if (placement.on_gpus()) {
    return int4_head_pays(config.hidden_size, draft.live_vocab()) ? WeightOverride::kInt4Head
                                                                  : WeightOverride::kAsStored;
  }
  return config.quantization.kind == QuantizationConfig::Kind::kNone ? WeightOverride::kInt8
                                                                     : WeightOverride::kAsStored;
}

Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel& target,
                      const OpenedModel* draft) {
  const bool target_on_gpus = placement.target.on_gpus();
  const bool draft_on_gpus = placement.of(Role::kDraft).on_gpus();
  const std::string found_draft = "draft_weights: found '" + options.draft_weights + "'";
  if (options.draft_weights == "int4_head" && draft == nullptr) {
    return Status(StatusCode::kUnsupported, found_draft + ", but there is no draft model");
  }
  if (draft != nullptr) {
    const WeightOverride weights = numerics.draft_weights.value_or(WeightOverride::kAsStored);
    if (draft_on_gpus) {
      FORERUN_RETURN_IF_ERROR(
          check_on_gpu(found_draft, weights, *draft, "auto, as_stored, int8_head and int4_head"));
    } else if (weights == WeightOverride::kInt4Head) {
      return Status(
          StatusCode::kUnsupported,
          found_draft + "; accepted on processors: auto, as_stored, bf16, f32, int8 and int8_head");
    }
  }
  if (!target_on_gpus && !(placement.draft && placement.draft->on_gpus())) return Status();
  if (numerics.activation != Activation::kBf16) {
    return Status(StatusCode::kUnsupported,
                  "activations: found '" + options.activations + "'; accepted on a GPU: bf16");
  }
  if (!target_on_gpus) return Status();
  return check_on_gpu("weights: found '" + options.weights + "'", numerics.weights, target,
                      "as_stored and int8_head");
}

}  // namespace forerun
