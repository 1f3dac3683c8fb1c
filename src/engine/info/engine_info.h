// The EngineInfo of an engine that has been loaded and measured.
#pragma once

#include <string>

#include "engine/load/loaded_models.h"
#include "engine/load/opened_model.h"
#include "exec/emulated/step_profile.h"
#include "forerun/engine.h"

namespace forerun {

// Fills in all fields but planner_report.
EngineInfo describe_engine(const EngineOptions& options, const OpenedModel& target,
                           const LoadedModels& models, const StepProfile* emulated);

}  // namespace forerun
