// Places the models if the target's stages are processes of a launch (hosts/hosts.h).
#pragma once

#include <string>

#include "engine/load/device_spec.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Does what place_models() does for a launch, `options.hosts`. Each stage has its own machine,
// where it uses the devices named for that stage, or for all stages; the names of different stages
// may be equal. The draft runs in the coordinator, on its own devices. If no devices are named,
// each process gets its share of its machine's processors. For stages in other processes only the
// number of devices is known. Fails with kInvalidArgument if the options ask for a number of stages
// other than the launch's.
Result<Placement> place_on_hosts(const EngineOptions& options);

}  // namespace forerun
