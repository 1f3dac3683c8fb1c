// Measures the costs of Steps on devices of this machine, for plans, without creating an engine.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"
#include "planner/start_costs.h"

namespace forerun {

// Loads the models of `options` on the devices of `options`, and finds or measures the durations of
// Steps as an engine does at its start. Fails as Engine::create() does; refuses options that
// emulate a machine or ask for splits to be tried.
Result<StartCosts> measure_devices(const EngineOptions& options);

}  // namespace forerun
