#include "exec/role/step_under_way.h"

#include <algorithm>

#include "base/clocks.h"

namespace forerun {

StepRecord record_of(Role role, const StepUnderWay& step, bool traced) {
  const StepLoad load = step.builder.load();
  StepRecord record;
  record.role = role;
  record.rows = load.rows;
  record.sequences = load.sequences;
  record.context_tokens = step.builder.context_tokens();
  record.kv_tokens = load.kv_tokens;
  record.attended_tokens = load.attended_tokens;
  record.through_view = load.through_view;
  record.seconds = 1e-9 * static_cast<double>(step.end_ns - step.start_ns);
  record.host_seconds = 1e-9 * static_cast<double>(step.host_ns);
  record.overlaps = step.overlaps;
  record.start_ns = step.start_ns;
  record.end_ns = step.end_ns;
  // There are two measured intervals, and each includes the cost of one clock reading.
  if (traced) {
    record.host_cpu_ns = std::max<int64_t>(step.host_cpu_ns - 2 * thread_cpu_read_ns(), 0);
  }
  record.items = step.items;
  record.stages = step.stages;
  return record;
}

}  // namespace forerun
