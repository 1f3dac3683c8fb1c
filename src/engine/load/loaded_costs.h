// What Steps of the loaded models cost, from the cache that EngineOptions name or by measuring.
#pragma once

#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "exec/real_executor.h"
#include "planner/start_costs.h"

namespace forerun {

// Calls find_or_measure_costs(); `executor` runs `models`, which were loaded from `to_load`. If the
// cache's key cannot be made, the cache is not used, and the log says so.
Result<StartCosts> costs_of(const ModelsToLoad& to_load, const LoadedModels& models,
                            RealExecutor& executor, const ProgressCallback& on_progress);

}  // namespace forerun
