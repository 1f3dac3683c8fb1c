// For processes that must compute with the instruction set that all of them have.
#pragma once

#include "forerun/status.h"
#include "kernels/isa.h"

namespace forerun {

// Makes current_isa() return `isa` from now on. Must be called before any kernel has run. Fails
// with kInvalidArgument where `isa` comes after current_isa() in the order of Isa.
Status restrict_isa(Isa isa);

}  // namespace forerun
