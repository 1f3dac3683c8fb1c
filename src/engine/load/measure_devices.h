// Measures what Steps cost on devices of this machine without creating an engine, for plans.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"
#include "planner/start_costs.h"

namespace forerun {

// Loads the models that `options` name on the devices that they name, and finds or measures the
// durations of Steps as an engine does at its start. Fails as Engine::create(); refuses options
// that emulate a machine or ask for splits to be tried.
Result<StartCosts> measure_devices(const EngineOptions& options);

}  // namespace forerun
