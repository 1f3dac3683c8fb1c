// For processes that must compute with the instruction set that all of them have.
#pragma once

#include "forerun/status.h"
#include "kernels/isa.h"

namespace forerun {

// From now on current_isa() is `isa`, which comes before it in the order of Isa, or is it. Before
// any kernel has run. kInvalidArgument for a later one.
Status restrict_isa(Isa isa);

}  // namespace forerun
