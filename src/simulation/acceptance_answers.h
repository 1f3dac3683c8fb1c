// Answers the tasks of a Step's rows from an AcceptanceSource, in place of a model.
#pragma once

#include <cstdint>
#include <span>

#include "exec/step_runner.h"
#include "simulation/acceptance_source.h"

namespace forerun {

// `histories` has the hashes of the Step's rows that want logits, in their order
// (AcceptanceSource). Neither function gives the task an error.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories, RowTask& task);
// Draft tokens are accepted if they equal the target's token, as by rule `match`: at most as many
// as the rejection rule would accept.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories,
            RejectionTask& task);

}  // namespace forerun
