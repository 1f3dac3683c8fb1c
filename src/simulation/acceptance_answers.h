// An AcceptanceSource's answers to what a Step's rows want, in a model's place.
#pragma once

#include <cstdint>
#include <span>

#include "exec/step_runner.h"
#include "simulation/acceptance_source.h"

namespace forerun {

// `histories`: of the Step's rows that want logits, in their order (AcceptanceSource). Both leave
// the task without an error.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories, RowTask& task);
// Guesses are accepted where they are the target's token, as under rule `match`: at most as many as
// the rule would take.
void answer(const AcceptanceSource& source, std::span<const uint64_t> histories,
            RejectionTask& task);

}  // namespace forerun
