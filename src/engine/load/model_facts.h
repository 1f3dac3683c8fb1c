// Fills in ModelFacts, what speculation plans must know of an engine's models.
#pragma once

#include "engine/load/loaded_models.h"
#include "engine/load/opened_model.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// Whether the model has sliding-window layers.
bool has_window(const OpenedModel& model);
// The facts of models that have been opened: all but their context and what their devices support.
ModelFacts facts_of(const OpenedModels& opened);
// Adds the context and what the devices support, once the models are loaded.
void add_loaded(const LoadedModels& loaded, ModelFacts& facts);

}  // namespace forerun
