// Chooses the runner for a loaded model: on one decoder, on the stages of this process, or on the
// stages of a launch.
#pragma once

#include <memory>

#include "engine/load/loaded_models.h"
#include "exec/step_runner.h"
#include "step/types.h"

namespace forerun {

// Makes a runner of the role, which must have a model. The runner changes the KV of the decoders of
// `models`, which must outlive it.
std::unique_ptr<StepRunner> make_runner(LoadedModels& models, Role role);

}  // namespace forerun
