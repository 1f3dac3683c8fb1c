// The arms of a strategy that sizes its trees by costs: each uses some of its draft sources, or
// none, which is plain decoding. A request that switches arms does so at its next round and keeps
// its strategy, its KV and what it has learnt.
#pragma once

#include <vector>

#include "step/cost_table.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// Returns the arms: first all sources of `plan` together, last plain decoding. Returns a single arm
// if its strategy does not choose by costs or its models run concurrently.
std::vector<GuessSources> source_arms(const SpeculationPlan& plan);

}  // namespace forerun
