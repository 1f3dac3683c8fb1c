#include "simulation/simulated_runner.h"

#include "simulation/acceptance_answers.h"

namespace forerun {

SimulatedRunner::SimulatedRunner(const AcceptanceSource* acceptance, int64_t kv_blocks)
    : acceptance_(acceptance), histories_(kv_blocks) {
  config_.vocab_size = acceptance->vocab();
}

Status SimulatedRunner::run(const Step& step, std::span<RowTask> tasks,
                            std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  if (meanwhile) meanwhile();
  wanted_.clear();
  for (const StepRow& row : step.rows) {
    const uint64_t history = histories_.append(step, row);
    if (row.wants_logits) wanted_.push_back(history);
  }
  for (RowTask& task : tasks) answer(*acceptance_, wanted_, task);
  for (RejectionTask& task : rejections) answer(*acceptance_, wanted_, task);
  return {};
}

}  // namespace forerun
