// The duration of a Step and its items, which executors publish for the planner and for traces.
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
  int32_t context_tokens = 0;  // largest number of visible tokens of a row
  int64_t kv_tokens = 0;       // as in StepLoad
  int64_t attended_tokens = 0;
  bool through_view = false;
  double seconds = 0.0;       // forward and sampling
  double host_seconds = 0.0;  // other work: edits, composing the Step, collecting results

  // True if another Step of the role was in flight: `seconds` is then the Step's actual time, not
  // its cost alone.
  bool overlaps = false;

  // Begin of the forward pass and end of sampling, by the executor's clock.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // If the executor traces: the host's share in thread CPU time, and the requests of the rows
  // (valid during the call).
  int64_t host_cpu_ns = 0;
  std::span<const TraceItem> items;
  std::span<const TraceStage> stages;  // as in TraceStep; valid during the call

  StepLoad load() const { return {rows, kv_tokens, sequences, attended_tokens, through_view}; }
};

}  // namespace forerun
