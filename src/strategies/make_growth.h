// Makes the TreeGrowth for a plan's shape.
#pragma once

#include <memory>

#include "strategies/acceptance.h"
#include "strategies/speculation_plan.h"
#include "strategies/tree_growth.h"

namespace forerun {

// `runs_beside`: the draft also grows the tree while the target runs, so that a round only tops it
// up. `shared` may be null.
std::unique_ptr<TreeGrowth> make_growth(const SpeculationPlan& plan, bool runs_beside,
                                        std::shared_ptr<SharedAcceptance> shared);

}  // namespace forerun
