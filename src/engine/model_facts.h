// What plans need to know of an engine's models (ModelFacts), as far as it is known.
#pragma once

#include "engine/loaded_models.h"
#include "engine/opened_model.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// Whether it has layers that see a window of the last tokens only.
bool has_window(const OpenedModel& model);
// Of models that have been opened: all but their context and what their devices can do.
ModelFacts facts_of(const OpenedModels& opened);
// And that, once they are loaded.
void add_loaded(const LoadedModels& loaded, ModelFacts& facts);

}  // namespace forerun
