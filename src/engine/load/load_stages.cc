#include "engine/load/load_stages.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/weight_files.h"
#include "engine/load/gpu.h"
#include "model/cpu_decoder.h"
#include "model/widened_formats.h"

namespace forerun {
namespace {

// Turns the fraction of a stage that is loaded into that of its model; empty where nobody listens.
std::function<void(double)> progress_of(const ModelsToLoad& models, Role role,
                                        const LayerRange& layers) {
  const auto& on_progress = models.options->on_progress;
  if (!on_progress) return {};
  const int32_t num_layers = models.of(role).opened->checkpoint.config().num_layers;
  return [&on_progress, role, layers, num_layers](double fraction) {
    on_progress(std::string("loading ") + role_name(role),
                (layers.begin + fraction * layers.size()) / num_layers);
  };
}

Result<std::unique_ptr<Decoder>> load_decoder(const ModelsToLoad& models, Role role,
                                              int64_t kv_blocks, const PlacedStage& stage) {
  const OpenedModel& opened = *models.of(role).opened;
  if (!stage.gpus.empty()) {
    return load_on_gpus(opened.checkpoint, stage.layers, stage.gpus, kv_blocks, opened.live_vocab(),
                        models.of(role).weights, progress_of(models, role, stage.layers));
  }
  CpuDecoderOptions options;
  options.layers = stage.layers;
  options.activation = models.activation;
  options.weights = models.of(role).weights;
  options.kv_blocks = kv_blocks;
  options.live_vocab = opened.live_vocab();
  options.progress = progress_of(models, role, stage.layers);
  return CpuDecoder::load(opened.checkpoint, stage.devices, std::move(options));
}

Status load_stage(const ModelsToLoad& models, Role role, int64_t kv_blocks, PlacedStage& stage) {
  Result<std::unique_ptr<Decoder>> decoder = load_decoder(models, role, kv_blocks, stage);
  // Checked before the decoder: where a file has changed meanwhile, an error in its content is only
  // a consequence.
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
      FORERUN_RETURN_IF_ERROR(load_stage(models, role, memory.kv_blocks(role), stage));
    }
  }
  return {};
}

}  // namespace forerun
