// Loads the weights of stages into decoders.
#pragma once

#include "engine/load/memory_plan.h"
#include "engine/load/models_to_load.h"
#include "engine/load/placed_models.h"
#include "forerun/status.h"

namespace forerun {

// Loads every stage of `placed` that this process holds, with the KV blocks of `memory`; the
// target's stages first, in order. Fills in the stages' decoders and facts, and reports to the
// options' on_progress. Fails as CpuDecoder::load() and load_on_gpus() do, or, if a file of weights
// has changed meanwhile, as WeightFiles::check() does; `placed` then holds the decoders loaded so
// far.
Status load_stages(const ModelsToLoad& models, const MemoryPlan& memory, PlacedModels& placed);

}  // namespace forerun
