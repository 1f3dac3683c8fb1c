// How long a Step took: what executors publish for the planner and for traces.
#pragma once

#include <cstdint>

#include "step/types.h"

namespace forerun {

struct StepRecord {
  Role role = Role::kTarget;
  int32_t rows = 0;
  int32_t sequences = 0;
  int32_t context_tokens = 0;  // what the row that sees most sees
  double seconds = 0.0;        // forward and sampling
  double host_seconds = 0.0;   // the rest: edits, building the Step, collecting results
};

}  // namespace forerun
