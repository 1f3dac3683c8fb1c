// The ids of scratch sequences, on which Steps are measured.
#pragma once

#include "step/types.h"

namespace forerun {

// Scratch sequences have ids from here on.
constexpr SequenceId kFirstScratch = ~SequenceId{0} - 4096;

}  // namespace forerun
