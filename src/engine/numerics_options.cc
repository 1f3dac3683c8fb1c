#include "engine/numerics_options.h"

#include <string>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr int32_t kInt4Group = 128;  // of inputs that share a scale
// In bf16. A smaller head is read in 15 us (H200), about what the times of Steps scatter.
constexpr int64_t kLargeHeadBytes = int64_t{64} << 20;

Result<Activation> parse_activation(const std::string& name) {
  for (Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    if (name == activation_name(activation)) return activation;
  }
  return Status(StatusCode::kInvalidArgument,
                "activations: found '" + name + "', accepted are bf16, f32 and int8");
}

Result<WeightOverride> parse_weights(const char* option, const std::string& name) {
  if (name == "as_stored") return WeightOverride::kAsStored;
  if (name == "bf16") return WeightOverride::kBf16;
  if (name == "f32") return WeightOverride::kF32;
  if (name == "int8") return WeightOverride::kInt8;
  return Status(StatusCode::kInvalidArgument, std::string(option) + ": found '" + name +
                                                  "', accepted are as_stored, bf16, f32 and int8");
}

Result<DraftWeights> parse_draft_weights(const std::string& name) {
  if (name == "auto") return DraftWeights{.choose = true};
  if (name == "int4_head") return DraftWeights{.int4_head = true};
  const auto layers = parse_weights("draft_weights", name);
  if (layers.ok()) return DraftWeights{.layers = *layers};
  return Status(StatusCode::kInvalidArgument,
                "draft_weights: found '" + name +
                    "', accepted are auto, as_stored, bf16, f32, int8 and int4_head");
}

}  // namespace

Result<NumericsOptions> parse_numerics(const EngineOptions& options) {
  NumericsOptions numerics;
  FORERUN_ASSIGN_OR_RETURN(numerics.activation, parse_activation(options.activations));
  FORERUN_ASSIGN_OR_RETURN(numerics.weights, parse_weights("weights", options.weights));
  FORERUN_ASSIGN_OR_RETURN(numerics.draft_weights, parse_draft_weights(options.draft_weights));
  return numerics;
}

bool int4_head_pays(int32_t hidden_size, int32_t vocab_size) {
  return hidden_size % kInt4Group == 0 && int64_t{2} * hidden_size * vocab_size >= kLargeHeadBytes;
}

void choose_draft_weights(const OpenedModel& draft, const ModelPlacement& placement,
                          DraftWeights& weights) {
  if (!weights.choose) return;
  // Small models are bound by their weights' bytes; fewer bits cost guesses next to nothing.
  const ModelConfig& config = draft.checkpoint.config();
  if (placement.on_gpus()) {
    weights.int4_head = int4_head_pays(config.hidden_size, draft.live_vocab());
  } else if (config.quantization.kind == QuantizationConfig::Kind::kNone) {
    weights.layers = WeightOverride::kInt8;
  }
}

Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel* draft) {
  const auto refused = [&options](const std::string& accepted) {
    return Status(StatusCode::kUnsupported,
                  "draft_weights: found '" + options.draft_weights + "'; " + accepted);
  };
  const bool draft_on_gpu = placement.of(Role::kDraft).on_gpus();
  if (numerics.draft_weights.int4_head) {
    if (draft == nullptr) return refused("but there is no draft model");
    if (!draft_on_gpu) {
      return refused("on processors auto, as_stored, bf16, f32 and int8 are accepted");
    }
    const int32_t inputs = draft->checkpoint.config().hidden_size;
    if (inputs % kInt4Group != 0) {
      return refused("the draft's hidden_size is " + std::to_string(inputs) +
                     ", multiples of 128 are accepted");
    }
  }
  const bool any_gpu =
      placement.target.on_gpus() || (placement.draft && placement.draft->on_gpus());
  if (!any_gpu) return Status();
  if (numerics.activation != Activation::kBf16) {
    return Status(StatusCode::kUnsupported,
                  "activations: found '" + options.activations + "'; on a GPU bf16 is accepted");
  }
  if (placement.target.on_gpus() && numerics.weights != WeightOverride::kAsStored) {
    return Status(StatusCode::kUnsupported,
                  "weights: found '" + options.weights + "'; on a GPU as_stored is accepted");
  }
  if (draft != nullptr && draft_on_gpu &&
      numerics.draft_weights.layers != WeightOverride::kAsStored) {
    return refused("on a GPU auto, as_stored and int4_head are accepted");
  }
  return Status();
}

}  // namespace forerun
