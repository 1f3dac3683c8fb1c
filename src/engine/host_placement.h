// What the models run on where the target's stages are processes of a launch (hosts/hosts.h).
#pragma once

#include <string>

#include "engine/device_spec.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// As place_models(), but every stage of `options.hosts` has a machine of its own, where the devices
// that are named for it, or for all, are looked for: the same names may come again. The draft is
// the coordinator's, on its devices, beside the target. Where none are named, each process has its
// share of its machine's processors. Of other processes' placements only how many devices they have
// is known. kInvalidArgument where the options ask for other stages than there are.
Result<Placement> place_on_hosts(const EngineOptions& options);

}  // namespace forerun
