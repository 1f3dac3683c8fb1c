#include "engine/load/loaded_models.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

// Returns whether the role has a model and the fact holds for all of its stages.
bool holds_for_all(const PlacedModel& model, bool StageFacts::*fact) {
  return model.opened != nullptr &&
         std::all_of(model.stages.begin(), model.stages.end(),
                     [fact](const PlacedStage& stage) { return stage.facts.*fact; });
}

}  // namespace

LoadedModels::LoadedModels(const Placement& placement, MemoryPlan memory, PlacedModels models,
                           Hosts* hosts)
    : placement_(placement),
      memory_(std::move(memory)),
      models_(std::move(models)),
      hosts_(hosts) {}

bool LoadedModels::quantizes_keys(Role role) const {
  return holds_for_all(model(role), &StageFacts::quantizes_keys);
}

bool LoadedModels::selects_kv(Role role) const {
  return holds_for_all(model(role), &StageFacts::selects_kv);
}

double LoadedModels::kv_reads_per_selection(Role role) const {
  return model(role).stages.back().facts.kv_reads_per_selection;
}

Status LoadedModels::check_weights(Role role) const {
  for (const PlacedStage& stage : model(role).stages) {
    if (stage.decoder != nullptr) FORERUN_RETURN_IF_ERROR(stage.decoder->check_weights());
  }
  return {};
}

PipelineStage LoadedModels::stage_here() const {
  const PlacedStage& stage = model(Role::kTarget).stage_here();
  return {stage.decoder.get(), stage.devices};
}

std::string describe_stages(const LoadedModels& models, const ModelConfig& config) {
  const std::vector<LayerRange> layers = models.target_layers();
  if (layers.size() < 2) return "";
  std::string text;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    text += "stage " + std::to_string(stage + 1) + ": " + describe(layers[stage], config) + "\n";
  }
  return text;
}

}  // namespace forerun
