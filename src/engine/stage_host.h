// A process that is a stage of a target whose coordinator is another one.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Loads this process' stage, of `options.hosts`, and runs its Steps until the coordinator ends the
// launch. The options must be those that the coordinator's engine is created with; the draft's are
// not looked at. Ok also where the coordinator has ended it with a failure, which is the
// coordinator's to tell. Fails, and tells the coordinator, where this process cannot go on, or the
// coordinator or the stage in front is lost.
Status run_stage_host(EngineOptions options);

}  // namespace forerun
