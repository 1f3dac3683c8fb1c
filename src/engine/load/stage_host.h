// The main function of a process that runs one stage of a target for a coordinator in another
// process.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Loads this process' stage, by `options.hosts`, and runs its Steps until the coordinator ends the
// launch. The options must be those of the coordinator's engine; the draft's are ignored. Also
// returns ok where the coordinator has ended the launch with a failure, which the coordinator
// reports. Fails, and tells the coordinator, where this process cannot go on, or the connection to
// the coordinator or to the stage before is lost.
Status run_stage_host(EngineOptions options);

}  // namespace forerun
