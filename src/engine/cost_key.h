// What the times of Steps hold for: the processors or GPUs, how they are shared out, the models'
// shapes and weights, and the code that runs them.
#pragma once

#include "engine/device_spec.h"
#include "engine/loaded_models.h"
#include "forerun/status.h"
#include "planner/cost_file.h"

namespace forerun {

// `max_context_tokens` as the memory was planned. Fails where a GPU or a model's config.json cannot
// be asked.
Result<CostKey> cost_key(const ModelsToLoad& models, const Placement& placement,
                         int32_t max_context_tokens);

}  // namespace forerun
