// The main function of a process that runs one stage of a target for a coordinator in another
// process.
#pragma once

#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Loads this process's stage of `options.hosts` and runs its Steps until the coordinator ends the
// launch. The options must be those of the coordinator's engine; those of the draft are ignored.
// Also returns ok if the coordinator has ended the launch with a failure, which the coordinator
// reports. Fails, and tells the coordinator, if this process cannot go on, or if the connection to
// the coordinator or to the previous stage is lost.
Status run_stage_host(EngineOptions options);

}  // namespace forerun
