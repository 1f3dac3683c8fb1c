// Runs one stage of a pipeline in a process of its own. The stage receives messages from the
// previous stage (the first stage: from the coordinator), runs them (exec/stages/stage_worker.h)
// and sends them on; the last stage answers the coordinator.
#pragma once

#include <cstdint>

#include "exec/stages/cancelled_rows.h"
#include "exec/stages/stage_worker.h"
#include "forerun/status.h"
#include "hosts/hosts.h"

namespace forerun {

// Serves until the coordinator ends the launch. Fails, after telling the coordinator, if the
// coordinator or the previous stage is lost, or if a message cannot be read. `live_vocab` is the
// model's.
Status serve_stage(Hosts& hosts, StageWorker& worker, int32_t live_vocab);

}  // namespace forerun
