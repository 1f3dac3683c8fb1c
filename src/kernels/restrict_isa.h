// A restriction of the process's instruction set, for processes on several machines that must all
// use an instruction set that every machine has.
#pragma once

#include "forerun/status.h"
#include "kernels/isa.h"

namespace forerun {

// Makes current_isa() return `isa` from now on. Call it before any kernel has run. Returns
// kInvalidArgument if `isa` comes after current_isa() in the order of Isa, or is not built.
Status restrict_isa(Isa isa);

}  // namespace forerun
