// What Steps of models cost on devices of this machine, without an engine around them: for plans.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"
#include "planner/start_costs.h"

namespace forerun {

// Loads the models that `options` name where these place them, and finds or measures their Steps as
// an engine's start does. Fails as Engine::create(); machines to emulate and splits to try are
// refused.
Result<StartCosts> measure_devices(const EngineOptions& options);

}  // namespace forerun
