// The description that an engine gives of itself once it is loaded and measured.
#pragma once

#include <string>

#include "engine/load/loaded_models.h"
#include "engine/load/opened_model.h"
#include "exec/emulated/step_profile.h"
#include "forerun/engine.h"

namespace forerun {

// Leaves planner_report empty.
EngineInfo describe_engine(const EngineOptions& options, const OpenedModel& target,
                           const LoadedModels& models, const StepProfile* emulated);

}  // namespace forerun
