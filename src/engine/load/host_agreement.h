// What processes of a launch must have in common before any of them loads weights.
#pragma once

#include "engine/load/models_to_load.h"
#include "forerun/engine.h"
#include "hosts/hosts.h"

namespace forerun {

// Version and build, the options that stages depend on, the content of the files beside the
// target's weights, and names, types and shapes of its tensors. Reads no weight.
HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement);

// From here on all processes use the least instruction set that any of them has. Where they would
// have used different ones, the coordinator logs the choice and the ranks. Must be called before
// any kernel has run.
Status agree_on_isa(Hosts& hosts);

}  // namespace forerun
