// Chooses the runner for a loaded model: on one decoder, on the stages of this process, or on the
// stages of a launch.
#pragma once

#include <memory>

#include "engine/load/loaded_models.h"
#include "exec/step_runner.h"
#include "step/types.h"

namespace forerun {

// The role must have a model. The runner's Steps change the KV of the decoders of `models`, which
// must outlive the runner.
std::unique_ptr<StepRunner> make_runner(LoadedModels& models, Role role);

}  // namespace forerun
