// Checks of an engine's options before a model is read.
#pragma once

#include <memory>

#include "engine/load/device_spec.h"
#include "exec/emulated/step_emulator.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Whether the options agree with each other and with where the models are to run.
Status check_options(const EngineOptions& options, const Placement& placement);

// The emulated machine that `options.emulate` names; null where it names none. Fails where the
// profile cannot be read or has no times for the models' placement.
Result<std::unique_ptr<StepEmulator>> make_emulator(const EngineOptions& options,
                                                    const Placement& placement);

}  // namespace forerun
