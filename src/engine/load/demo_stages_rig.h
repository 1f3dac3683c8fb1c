// The stages of the demo pair for tests, placed on threads that are not pinned, with a memory plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/load/device_spec.h"
#include "engine/load/models_to_load.h"
#include "engine/load/opened_model.h"
#include "engine/load/placed_models.h"
#include "engine/load/stage_memory.h"
#include "forerun/engine.h"
#include "hosts/hosts.h"
#include "model/device_memory.h"

namespace forerun {

// Opens the demo pair once. The target has 10 layers.
inline const OpenedModels& demo_pair() {
  static const OpenedModels opened = [] {
    EngineOptions options;
    options.model = FORERUN_SOURCE_DIR "/models/demo-target";
    options.draft = FORERUN_SOURCE_DIR "/models/demo-draft";
    return std::move(*open_models(options));
  }();
  return opened;
}

// `options` must outlive the result.
inline ModelsToLoad demo_to_load(const EngineOptions& options, bool has_draft = true) {
  ModelsToLoad models;
  models.models[0].opened = &demo_pair().target;
  if (has_draft) models.models[1].opened = demo_pair().draft_or_null();
  models.options = &options;
  models.stage_layers = options.stage_layers;
  return models;
}

// Places `stages` stages on one thread each.
inline ModelPlacement one_thread_stages(int32_t stages) {
  const ModelPlacement one{.gpus = {}, .devices = {{.cores = {}}}};
  ModelPlacement placement = one;
  placement.earlier.assign(static_cast<size_t>(stages) - 1, one);
  return placement;
}

// The stages that a rank of a two-stage launch holds, and the memories that it plans with.
struct Share {
  PlacedModels placed;
  std::vector<DeviceMemory> memories;
};

inline Result<Share> share_of(const std::shared_ptr<Hosts>& hosts) {
  EngineOptions options;
  options.hosts = hosts;
  const ModelsToLoad models = demo_to_load(options, hosts->is_coordinator());
  Placement placement{.target = one_thread_stages(2), .draft = {}, .on_hosts = true};
  if (hosts->is_coordinator()) placement.draft = one_thread_stages(1);
  auto placed = place_stages(models, placement);
  if (!placed.ok()) return placed.status();
  auto plan = plan_stage_memory(models, *placed);
  if (!plan.ok()) return plan.status();
  return Share{std::move(*placed), std::move(plan->memories)};
}

}  // namespace forerun
