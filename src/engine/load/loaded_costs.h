// The costs of Steps of the loaded models, from the cache that EngineOptions name or by measuring.
#pragma once

#include <filesystem>

#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "exec/real_executor.h"
#include "planner/start_costs.h"

namespace forerun {

// The folder that caches the costs of Steps of loaded models, and their key in it.
struct CostPlace {
  std::filesystem::path folder;  // empty: nothing is kept
  CostKey key;
};

// Returns the place for `models`, which were loaded from `to_load`. If its key cannot be made,
// nothing is kept, and the log says so.
CostPlace cost_place(const ModelsToLoad& to_load, const LoadedModels& models);

// Calls find_or_measure_costs(); `executor` runs `models`.
Result<StartCosts> costs_of(const CostPlace& place, const LoadedModels& models,
                            RealExecutor& executor, bool measure_anew,
                            const ProgressCallback& on_progress);

}  // namespace forerun
