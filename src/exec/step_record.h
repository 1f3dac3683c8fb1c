// How long a Step took and which items it ran: what executors publish for the planner and for
// traces.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/trace.h"
#include "step/step_load.h"
#include "step/types.h"

namespace forerun {

struct StepRecord {
  Role role = Role::kTarget;
  int32_t rows = 0;
  int32_t sequences = 0;
  int32_t context_tokens = 0;  // what the row that sees most sees
  int64_t kv_tokens = 0;       // as in StepLoad
  int64_t attended_tokens = 0;
  double seconds = 0.0;       // forward and sampling
  double host_seconds = 0.0;  // the rest: edits, building the Step, collecting results

  // Another Step of the role was under way at the same time: `seconds` is how long the Step took,
  // not what it would have cost alone.
  bool overlaps = false;

  // When the forward began and sampling ended, by the executor's clock.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // Where the executor traces: the host's share in thread CPU time, and whose rows these were
  // (valid during the call).
  int64_t host_cpu_ns = 0;
  std::span<const TraceItem> items;
  std::span<const TraceStage> stages;  // as in TraceStep; valid during the call

  StepLoad load() const { return {rows, kv_tokens, sequences, attended_tokens}; }
};

}  // namespace forerun
