// What processes of a launch must have in common before any of them loads weights.
#pragma once

#include "engine/loaded_models.h"
#include "forerun/engine.h"
#include "hosts/hosts.h"

namespace forerun {

// Version and build, processors' instruction sets where they decide bits, the target's checkpoint
// and the options that stages go by. Touches a page of each of its tensors.
HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement);

}  // namespace forerun
