// The placement of the models where the target's stages are processes of a launch (hosts/hosts.h).
#pragma once

#include <string>

#include "engine/load/device_spec.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Does what place_models() does for `options.hosts`. Every stage has a machine of its own, where
// the devices named for that stage, or for all stages, are looked up; stages may have equal names.
// The draft runs in the coordinator, on its own devices. Where no devices are named, each process
// gets its share of its machine's processors. For stages in other processes only the number of
// devices is known. kInvalidArgument where the options ask for another number of stages than the
// launch has.
Result<Placement> place_on_hosts(const EngineOptions& options);

}  // namespace forerun
