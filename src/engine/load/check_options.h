// Checks an engine's options before any model is read.
#pragma once

#include <memory>

#include "engine/load/device_spec.h"
#include "exec/emulated/step_emulator.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Fails if the options contradict each other or the models' placement.
Status check_options(const EngineOptions& options, const Placement& placement);

// Makes the emulator of the machine in `options.emulate`; null if that is empty. Fails if the
// profile cannot be read or has no times for the models' placement.
Result<std::unique_ptr<StepEmulator>> make_emulator(const EngineOptions& options,
                                                    const Placement& placement);

}  // namespace forerun
