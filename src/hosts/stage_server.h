// A stage of a pipeline in a process of its own: takes messages from the stage in front of it, or,
// the first one, from the coordinator, carries them out (exec/stages/stage_worker.h) and sends them
// on; the last one answers the coordinator.
#pragma once

#include <cstdint>

#include "exec/stages/dropped_rows.h"
#include "exec/stages/stage_worker.h"
#include "forerun/status.h"
#include "hosts/hosts.h"

namespace forerun {

// Serves until the coordinator ends the launch. Not ok where it, or the stage in front, is lost, or
// a message cannot be read: then the coordinator has been told. `live_vocab`: of the model.
Status serve_stage(Hosts& hosts, StageWorker& worker, int32_t live_vocab);

}  // namespace forerun
