#include "engine/load/placed_models.h"

#include <algorithm>

#include "base/status_macros.h"
#include "engine/load/stage_plan.h"
#include "hosts/hosts.h"

namespace forerun {

const PlacedStage& PlacedModel::stage_here() const {
  return *std::find_if(stages.begin(), stages.end(),
                       [](const PlacedStage& stage) { return stage.is_here; });
}

std::vector<LayerRange> PlacedModel::layers() const {
  std::vector<LayerRange> layers;
  for (const PlacedStage& stage : stages) layers.push_back(stage.layers);
  return layers;
}

std::vector<int32_t> PlacedModels::gpus_here() const {
  std::vector<int32_t> gpus;
  for (const PlacedModel& model : models) {
    for (const PlacedStage& stage : model.stages) {
      if (stage.is_here) gpus.insert(gpus.end(), stage.gpus.begin(), stage.gpus.end());
    }
  }
  return gpus;
}

namespace {

// Places a draft that takes turns with the target, on its processors or on those of its last stage.
// A trained head is not divided: it runs on the first GPU of a group, which holds the hidden states
// that it reads, or on one device of all the group's processors.
PlacedStage place_sequential_draft(const OpenedModel& draft, const ModelPlacement& placement,
                                   PlacedModels& placed) {
  PlacedStage stage;
  stage.layers = LayerRange::all(draft.checkpoint.config());
  stage.devices = placed.of(Role::kTarget).stages.back().devices;
  stage.gpus = placement.gpus;
  stage.degree = placement.degree();
  if (!draft.is_head() || stage.degree == 1) return stage;
  stage.degree = 1;
  if (placement.on_gpus()) {
    stage.gpus.resize(1);
  } else {
    stage.devices = placed.devices.emplace_back(stage.devices->as_one_device()).get();
  }
  return stage;
}

// Appends the stages of a model with devices of its own to `placed`.
Status place_model(const ModelsToLoad& models, Role role, const ModelPlacement& placement,
                   PlacedModels& placed) {
  const EngineOptions& options = *models.options;
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<LayerRange> layers,
      plan_stages(models.of(role).opened->checkpoint, models.of(role).weights, models.activation,
                  placement.on_gpus(), placement.num_stages(),
                  role == Role::kTarget ? models.stage_layers : std::vector<int32_t>()));
  for (int32_t idx = 0; idx < placement.num_stages(); ++idx) {
    const ModelPlacement& place = placement.stage(idx);
    PlacedStage& stage = placed.of(role).stages.emplace_back();
    stage.layers = layers[static_cast<size_t>(idx)];
    stage.gpus = place.gpus;
    stage.degree = place.degree();
    stage.is_here =
        options.hosts == nullptr || role == Role::kDraft || options.hosts->rank() == idx + 1;
    if (!stage.is_here || place.devices.empty()) continue;
    FORERUN_ASSIGN_OR_RETURN(placed.devices.emplace_back(),
                             CpuDeviceGroup::create({.devices = place.devices}));
    stage.devices = placed.devices.back().get();
  }
  return {};
}

}  // namespace

Result<PlacedModels> place_stages(const ModelsToLoad& models, const Placement& placement) {
  PlacedModels placed;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    PlacedModel& model = placed.of(role);
    model.opened = models.of(role).opened;
    if (model.opened == nullptr) continue;
    if (role == Role::kDraft && placement.sequential()) {
      model.stages.push_back(place_sequential_draft(*model.opened, placement.of(role), placed));
      continue;
    }
    FORERUN_RETURN_IF_ERROR(place_model(models, role, placement.of(role), placed));
  }
  return placed;
}

}  // namespace forerun
