// Loads an engine's models: places their stages, plans the memory and loads the weights. If the
// target's stages are processes of a launch (EngineOptions::hosts), the processes agree on each of
// these.
#pragma once

#include <memory>

#include "engine/load/device_spec.h"
#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "forerun/status.h"

namespace forerun {

// Fails as place_stages(), plan_stage_memory() and load_stages() do. In a launch every process
// calls it. From the memory plan on, all processes fail if one fails, if two processes have the
// same GPU (gpus_apart.h), or if their weights differ (weight_agreement.h). The caller must report
// an earlier failure (Hosts::end).
Result<std::unique_ptr<LoadedModels>> load_models(const ModelsToLoad& models,
                                                  const Placement& placement);

}  // namespace forerun
