#include "simulation/acceptance_answers.h"

namespace forerun {

void answer(const AcceptanceSource& source, std::span<const uint64_t> histories, RowTask& task) {
  task.status = {};
  if (task.want == Want::kNothing) return;
  const uint64_t history = histories[static_cast<size_t>(task.logits_row)];
  const int32_t position = task.context.position - 1;
  if (task.want == Want::kSample) {
    task.result->token = source.target_token(history, position);
  } else if (task.want == Want::kScore) {
    task.result->token = task.token;
  } else {
    source.draft_guesses(history, position, task.count, &task.result->top);
  }
}

void answer(const AcceptanceSource& source, std::span<const uint64_t> histories,
            RejectionTask& task) {
  task.status = {};
  task.result->accepted.clear();
  task.result->walked.clear();
  size_t current = 0;
  while (true) {
    const RejectionRow& row = task.rows[current];
    task.result->bonus = source.target_token(histories[static_cast<size_t>(row.logits_row)],
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

}  // namespace forerun
