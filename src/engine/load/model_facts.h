// Fills in ModelFacts: the facts about an engine's models that speculation plans depend on.
#pragma once

#include "engine/load/loaded_models.h"
#include "engine/load/opened_model.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// Returns whether the model has sliding-window layers.
bool has_window(const OpenedModel& model);
// Returns the facts of opened models, except their context and the features of their devices.
ModelFacts facts_of(const OpenedModels& opened);
// Adds the context and the features of the devices, once the models are loaded.
void add_loaded(const LoadedModels& loaded, ModelFacts& facts);

}  // namespace forerun
