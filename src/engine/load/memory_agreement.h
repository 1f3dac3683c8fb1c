// Makes the processes of a launch agree on one memory plan: the context and the KV blocks for which
// the process with the least memory has room.
#pragma once

#include "engine/load/memory_plan.h"
#include "forerun/status.h"
#include "hosts/hosts.h"

namespace forerun {

// Agrees on a plan in one round of a launch (Hosts::settle); every process calls it. `own` is the
// plan that this process made as if the other processes had enough memory. Returns `own` with the
// shortest context and the fewest target blocks of all processes; a draft that keeps all of its
// text gets as many blocks as the target. If `own` of any process is a failure, all processes fail
// with it. Fails with kCorrupt if another process's plan cannot be read.
Result<MemoryPlan> agree_on_memory(Hosts& hosts, const Result<MemoryPlan>& own);

}  // namespace forerun
