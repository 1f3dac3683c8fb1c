#include "simulation/replayed_runner.h"

#include <utility>

#include "base/status_macros.h"
#include "simulation/acceptance_answers.h"

namespace forerun {

ReplayedRunner::ReplayedRunner(std::unique_ptr<StepRunner> real, const AcceptanceSource* acceptance,
                               bool skips_prompts)
    : ForwardingRunner(std::move(real)),
      acceptance_(acceptance),
      skips_prompts_(skips_prompts),
      histories_(kv_blocks()) {}

Status ReplayedRunner::run(const Step& step, std::span<RowTask> tasks,
                           std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  wanted_.clear();
  for (const StepRow& row : step.rows) {
    const uint64_t history = histories_.append(step, row);
    if (row.wants_logits) wanted_.push_back(history);
  }
  const bool prompts = step.rows.size() > kPromptRows * step.sequences.size();
  if (!prompts || !skips_prompts_) {
    FORERUN_RETURN_IF_ERROR(inner().run(step, tasks, rejections, meanwhile));
  } else if (meanwhile) {
    meanwhile();
  }
  for (RowTask& task : tasks) answer(*acceptance_, wanted_, task);
  for (RejectionTask& task : rejections) answer(*acceptance_, wanted_, task);
  return {};
}

Status ReplayedRunner::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  histories_.move(sequence, moves);
  return inner().move_kv(sequence, moves);
}

}  // namespace forerun
