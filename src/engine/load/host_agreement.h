// Facts and settings that all processes of a launch must agree on before any of them loads weights.
#pragma once

#include "engine/load/models_to_load.h"
#include "forerun/engine.h"
#include "hosts/hosts.h"

namespace forerun {

// Returns the version and build, on which everything else that processes send depends.
HostFacts build_facts();

// Returns the options that stages depend on, the content of the files beside the target's weights,
// and the names, types and shapes of its tensors. Reads no weights.
HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement);

// Makes all processes use the lowest instruction set that any of them has. If they would have used
// different ones, the coordinator logs the choice and the ranks. Must be called before any kernel
// has run.
Status agree_on_isa(Hosts& hosts);

}  // namespace forerun
