// Loads the models that an engine is asked for: places their stages, plans the memory and loads the
// weights. Where the target's stages are processes of a launch (EngineOptions::hosts), the
// processes agree on each of these.
#pragma once

#include <memory>

#include "engine/load/device_spec.h"
#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "forerun/status.h"

namespace forerun {

// Fails as place_stages(), plan_stage_memory() and load_stages(). In a launch every process calls
// it. From the plan on all processes fail where one of them does, where two processes have the same
// GPU (gpus_apart.h) or other bytes of a weight (weight_agreement.h); a failure before the plan is
// for the caller to tell (Hosts::end).
Result<std::unique_ptr<LoadedModels>> load_models(const ModelsToLoad& models,
                                                  const Placement& placement);

}  // namespace forerun
