// What an engine is asked for, checked before a model is read.
#pragma once

#include <memory>

#include "engine/device_spec.h"
#include "exec/emulated/step_emulator.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Whether the options agree with each other and with where the models are to run.
Status check_options(const EngineOptions& options, const Placement& placement);

// The machine of `options.emulate`; null where none is named. Fails where its profile cannot be
// read, or the models' placement is not one that it has times for.
Result<std::unique_ptr<StepEmulator>> make_emulator(const EngineOptions& options,
                                                    const Placement& placement);

}  // namespace forerun
