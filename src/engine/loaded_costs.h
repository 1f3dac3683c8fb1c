// What Steps of loaded models cost, by EngineOptions' cache or by measuring.
#pragma once

#include "engine/loaded_models.h"
#include "exec/real_executor.h"
#include "planner/start_costs.h"

namespace forerun {

// As find_or_measure_costs(); `executor` runs `models`, which `to_load` became. Where the key
// cannot be told there is no cache, and the log says so.
Result<StartCosts> costs_of(const ModelsToLoad& to_load, const LoadedModels& models,
                            RealExecutor& executor, const ProgressCallback& on_progress);

}  // namespace forerun
