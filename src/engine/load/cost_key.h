// The key under which durations of Steps are cached: the processors or GPUs, their placement, the
// models' shapes and weights, and the code that runs them.
#pragma once

#include "engine/load/device_spec.h"
#include "engine/load/models_to_load.h"
#include "forerun/status.h"
#include "planner/cost_file.h"

namespace forerun {

// `max_context_tokens` is that of the memory plan. Fails if a GPU cannot be queried or a model's
// config.json cannot be read.
Result<CostKey> cost_key(const ModelsToLoad& models, const Placement& placement,
                         int32_t max_context_tokens);

}  // namespace forerun
