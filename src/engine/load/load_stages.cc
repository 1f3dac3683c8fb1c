#include "engine/load/load_stages.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/weight_files.h"
#include "engine/load/gpu.h"
#include "engine/load/progress_text.h"
#include "engine/load/tap_plan.h"
#include "model/cpu_decoder.h"
#include "model/held_tensors.h"
#include "model/widened_formats.h"

namespace forerun {
namespace {

// Returns a function that converts the loaded fraction of a stage to that of its model and reports
// it; empty if the options have no on_progress.
std::function<void(double)> progress_of(const ModelsToLoad& models, Role role,
                                        const LayerRange& layers) {
  const auto& on_progress = models.options->on_progress;
  if (!on_progress) return {};
  const Checkpoint& checkpoint = models.of(role).opened->checkpoint;
  const int32_t num_layers = checkpoint.config().num_layers;
  const auto bytes = static_cast<double>(held_bytes(checkpoint, layers));
  const auto begun = std::chrono::steady_clock::now();
  return [&on_progress, role, layers, num_layers, bytes, begun](double fraction) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    on_progress(describe_progress(std::string("loading ") + role_name(role), fraction, bytes,
                                  passed.count()),
                (layers.begin + fraction * layers.size()) / num_layers);
  };
}

// `target` is the decoder of the target's last stage, or null. A trained head on the same devices
// reads that decoder's hidden states.
Result<std::unique_ptr<Decoder>> load_decoder(const ModelsToLoad& models, Role role,
                                              int64_t kv_blocks, const PlacedStage& stage,
                                              const Decoder* target) {
  const OpenedModel& opened = *models.of(role).opened;
  if (!stage.gpus.empty()) {
    GpuDecoderOptions options;
    options.gpus = stage.gpus;
    options.layers = stage.layers;
    options.kv_blocks = kv_blocks;
    options.live_vocab = opened.live_vocab();
    options.weights = models.of(role).weights;
    options.taps = planned_taps(models, role, stage.layers);
    if (opened.is_head()) {
      options.target = &models.of(Role::kTarget).opened->checkpoint;
      options.target_decoder = target;
    }
    options.progress = progress_of(models, role, stage.layers);
    return load_on_gpus(opened.checkpoint, std::move(options));
  }
  CpuDecoderOptions options;
  options.layers = stage.layers;
  options.activation = models.activation;
  options.weights = models.of(role).weights;
  options.kv_blocks = kv_blocks;
  options.live_vocab = opened.live_vocab();
  options.taps = planned_taps(models, role, stage.layers);
  if (opened.is_head()) {
    options.target = &models.of(Role::kTarget).opened->checkpoint;
    options.target_taps = &dynamic_cast<const CpuDecoder&>(*target).taps();
  }
  options.progress = progress_of(models, role, stage.layers);
  return CpuDecoder::load(opened.checkpoint, stage.devices, std::move(options));
}

Status load_stage(const ModelsToLoad& models, Role role, int64_t kv_blocks, PlacedStage& stage,
                  const Decoder* target) {
  Result<std::unique_ptr<Decoder>> decoder = load_decoder(models, role, kv_blocks, stage, target);
  // Checks the files before the decoder: if a file has changed meanwhile, an error in its content
  // is only a consequence.
  const Checkpoint& checkpoint = models.of(role).opened->checkpoint;
  const auto holds = [&](ModuleId module) {
    return stage.layers.holds(module, checkpoint.config());
  };
  FORERUN_RETURN_IF_ERROR(WeightFiles(checkpoint, holds).check());
  FORERUN_ASSIGN_OR_RETURN(stage.decoder, std::move(decoder));
  const auto widened = widened_formats(checkpoint, stage.layers, !stage.gpus.empty());
  if (!widened.empty()) {
    log_line(LogLevel::kInfo, checkpoint.path().string() + ": " + describe(widened));
  }
  stage.facts = stage_facts(*stage.decoder);
  return {};
}

}  // namespace

Status load_stages(const ModelsToLoad& models, const MemoryPlan& memory, PlacedModels& placed) {
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    for (PlacedStage& stage : placed.of(role).stages) {
      if (!stage.is_here) continue;
      const Decoder* const target = placed.of(Role::kTarget).stages.back().decoder.get();
      FORERUN_RETURN_IF_ERROR(load_stage(models, role, memory.kv_blocks(role), stage, target));
    }
  }
  return {};
}

}  // namespace forerun
