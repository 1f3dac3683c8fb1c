// Finds the rows, under way or waiting, that need not be run, since edits that were submitted later
// drop their nodes (SpecPipe's pruning). The edits take effect in the order of submission; the
// rows' results are not needed any more.
#pragma once

#include <vector>

#include "exec/role/role_sequence.h"
#include "exec/role/step_under_way.h"
#include "exec/step_runner.h"

namespace forerun {

// Marks such rows of the sequence's items (PendingItem::dead), where the items allow it
// (WorkItem::tells_entry). Appends those that are in a Step under way to `issued`.
void mark_dropped_rows(const RoleSequence& sequence, const StepsUnderWay& steps,
                       std::vector<IssuedRow>& issued);

}  // namespace forerun
