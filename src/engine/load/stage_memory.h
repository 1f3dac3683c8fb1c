// The memory needs of the stages of both models: adds each stage's needs to the memory that holds
// it, and computes how much KV cache the memories of this process have room for.
#pragma once

#include "engine/load/memory_plan.h"
#include "engine/load/models_to_load.h"
#include "engine/load/placed_models.h"
#include "forerun/status.h"

namespace forerun {

// Runs plan_memory() for the stages of `placed`, which were placed from `models`; queries the
// memory of the host and of the GPUs. Processes of a launch on the same host share that host's
// memory evenly. A stage in another process counts as if its host had more memory than any stage
// needs: that process plans for itself, and agree_on_memory() compares the plans. Fails as
// plan_memory(), check_memory(), make_shard_plan(), gpu_memory() and gpu_memory_needs() do.
Result<MemoryPlan> plan_stage_memory(const ModelsToLoad& models, const PlacedModels& placed);

}  // namespace forerun
