// The search for rows, in flight or waiting, that need not run because later edits drop their nodes
// (SpecPipe's pruning). Edits take effect in the order of submission, and nobody needs the rows'
// results any more.
#pragma once

#include <vector>

#include "exec/role/role_sequence.h"
#include "exec/role/step_under_way.h"
#include "exec/step_runner.h"

namespace forerun {

// Marks such rows of the sequence's items (PendingItem::dead), if the items allow it
// (WorkItem::tells_entry). Appends those in Steps in flight to `issued`.
void mark_dropped_rows(const RoleSequence& sequence, const StepsUnderWay& steps,
                       std::vector<IssuedRow>& issued);

}  // namespace forerun
