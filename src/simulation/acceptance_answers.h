// Fills the tasks of a Step's rows from an AcceptanceSource, in place of a model.
#pragma once

#include <cstdint>
#include <span>

#include "exec/step_runner.h"
#include "simulation/acceptance_source.h"

namespace forerun {

// `histories` are the hashes (AcceptanceSource) of the Step's rows that want logits, in order.
// Neither function sets the task's error.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories, RowTask& task);
// Accepts draft tokens that equal the target's token, as rule `match` does. The rejection rule
// accepts at least as many.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories,
            RejectionTask& task);

}  // namespace forerun
