#include "engine/info/engine_info.h"

#include <set>
#include <string>
#include <string_view>

#include "checkpoint/modules.h"
#include "kernels/isa.h"

namespace forerun {
namespace {

// Returns the tensor-parallel degrees of the target as text: "tp2", or, where stages differ,
// "tp2x10+tp1x6" with the number of layers of each degree. A layer's bits depend on its degree, not
// on the cuts between stages.
std::string degrees(const LoadedModels& models) {
  const ModelPlacement& target = models.placement().target;
  const std::vector<LayerRange> layers = models.target_layers();
  std::string each;
  bool differ = false;
  for (int32_t stage = 0; stage < target.num_stages(); ++stage) {
    const int32_t degree = target.stage(stage).degree();
    differ = differ || degree != target.degree();
    each += (stage == 0 ? "tp" : "+tp") + std::to_string(degree) + "x" +
            std::to_string(layers[static_cast<size_t>(stage)].size());
  }
  return differ ? each : "tp" + std::to_string(target.degree());
}

// Returns the formats in which the linear layers of a checkpoint are stored, "Q4_K, Q6_K" or "f16".
// It reads the tensors, not the checkpoint's description.
std::string layer_formats(const Checkpoint& checkpoint) {
  std::set<std::string_view> formats;
  for (const Module& module : decoder_modules(checkpoint.config())) {
    if (module.type != ModuleType::kLinear || module.id.layer < 0) continue;
    if (const RawTensor* const weight = checkpoint.weight(module.id)) {
      formats.insert(format_name(*weight));
    }
  }
  std::string names;
  for (const std::string_view format : formats) {
    names += names.empty() ? "" : ", ";
    names += format;
  }
  return names;
}

std::string fingerprint(const EngineOptions& options, const OpenedModel& target,
                        const LoadedModels& models) {
  const std::string backend =
      models.placement().target.on_gpus() ? "cuda" : std::string("cpu ") + isa_name(current_isa());
  return backend + " " + degrees(models) + " weights=" +
         (options.weights != "as_stored" ? options.weights : layer_formats(target.checkpoint)) +
         " activations=" + options.activations;
}

}  // namespace

EngineInfo describe_engine(const EngineOptions& options, const OpenedModel& target,
                           const LoadedModels& models, const StepProfile* emulated) {
  EngineInfo info;
  info.model_name = target.checkpoint.name();
  info.numeric_fingerprint = fingerprint(options, target, models);
  if (emulated != nullptr) {
    info.emulated = emulated->name + ": " + emulated->machine + " (" + emulated->source + ")";
  }
  info.max_context_tokens = models.memory().max_context_tokens;
  info.draft_window = models.memory().draft_window;
  info.vocab_size = target.live_vocab();
  info.weight_bytes = models.memory().weight_bytes();
  info.kv_bytes = models.memory().kv_bytes();
  info.eos_token_ids = target.eos_token_ids();
  info.default_sampling = default_sampling(target.defaults);
  return info;
}

}  // namespace forerun
