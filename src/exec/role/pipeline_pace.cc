#include "exec/role/pipeline_pace.h"

namespace forerun {

void PipelinePace::observe(int64_t start_ns, int64_t entered_ns, int64_t end_ns) {
  constexpr double kMemory = 1.0 / 16.0;
  if (entered_ns <= start_ns || end_ns < entered_ns) return;
  const double share = entry_ns_ > 0.0 ? kMemory : 1.0;
  entry_ns_ += share * (static_cast<double>(entered_ns - start_ns) - entry_ns_);
  rest_ns_ += share * (static_cast<double>(end_ns - entered_ns) - rest_ns_);
}

}  // namespace forerun
