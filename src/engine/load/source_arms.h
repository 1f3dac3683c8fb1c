// The ways in which a strategy that sizes its trees by costs can decode: by some of its sources of
// guesses or by none, which is plain decoding. A request changes from one to another at its next
// round and keeps its strategy, its KV and what it has learnt.
#pragma once

#include <vector>

#include "step/cost_table.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// All sources of `plan` together first, plain decoding last. One entry where its strategy does not
// choose by costs or its models run side by side.
std::vector<GuessSources> source_arms(const SpeculationPlan& plan);

}  // namespace forerun
