// What processes of a launch must have in common before any of them loads weights.
#pragma once

#include "engine/loaded_models.h"
#include "forerun/engine.h"
#include "hosts/hosts.h"

namespace forerun {

// Version and build, the options that stages go by, and all of the target's checkpoint but the
// bytes of its tensors: what its other files say, and names, types and shapes. Reads no weight.
HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement);

// All processes use the least instruction set of any from here on; where they would have used
// others the coordinator logs which it is, and whose. Before any kernel has run.
Status agree_on_isa(Hosts& hosts);

}  // namespace forerun
