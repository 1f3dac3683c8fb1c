#include "simulation/simulated_runner.h"

#include <utility>

namespace forerun {

SimulatedRunner::SimulatedRunner(Role role, const StepProfile* profile,
                                 const AcceptanceSource* acceptance, int64_t kv_blocks)
    : role_(role), profile_(profile), acceptance_(acceptance), histories_(kv_blocks) {
  config_.vocab_size = acceptance->vocab();
}

Status SimulatedRunner::run(const Step& step, std::span<RowTask> tasks,
                            std::span<RejectionTask> rejections) {
  wanted_.clear();
  for (const StepRow& row : step.rows) {
    const uint64_t history = histories_.append(step, row);
    if (row.wants_logits) wanted_.push_back(history);
  }
  for (RowTask& task : tasks) perform(task);
  for (RejectionTask& task : rejections) perform(task);
  seconds_ += profile_->costs.seconds(role_, load_of(step));
  return {};
}

void SimulatedRunner::perform(RowTask& task) const {
  const uint64_t history = wanted_[static_cast<size_t>(task.logits_row)];
  const int32_t position = task.context.position - 1;
  if (task.want == Want::kSample) {
    task.result->token = acceptance_->target_token(history, position);
  } else if (task.want != Want::kNothing) {
    acceptance_->draft_guesses(history, position, task.count, &task.result->top);
  }
}

// Guesses are accepted where they are the target's token, as under rule `match`: at most as many as
// the rule would take.
void SimulatedRunner::perform(RejectionTask& task) const {
  size_t current = 0;
  while (true) {
    const RejectionRow& row = task.rows[current];
    task.result->bonus = acceptance_->target_token(wanted_[static_cast<size_t>(row.logits_row)],
                                                   row.context.position - 1);
    size_t child = current + 1;
    while (child < task.rows.size() &&
           (task.rows[child].parent_idx != static_cast<int32_t>(current) ||
            task.rows[child].token != task.result->bonus)) {
      ++child;
    }
    if (child == task.rows.size()) return;
    task.result->accepted.push_back(task.rows[child].node);
    current = child;
  }
}

double SimulatedRunner::take_seconds() { return std::exchange(seconds_, 0.0); }

}  // namespace forerun
