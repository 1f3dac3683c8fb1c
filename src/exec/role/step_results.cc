#include "exec/role/step_results.h"

#include <vector>

#include "exec/guarded.h"

namespace forerun {
namespace {

bool is_in(const std::vector<RowResult>& results, const RowResult* result) {
  return !results.empty() && result >= results.data() && result < results.data() + results.size();
}

}  // namespace

Status StepResults::take_task(const StepUnderWay::Piece& piece, const RowTask& task) {
  PendingItem& item = *piece.item;
  std::vector<RowResult>& results = item.result.rows;
  if (!is_in(results, task.result)) return task.status;
  const auto row = piece.first_item_row + static_cast<size_t>(task.step_row - piece.first_step_row);
  if (!item.dead.empty() && item.dead[row]) {
    item.dead_results.push_back(static_cast<size_t>(task.result - results.data()));
  }
  if (!is_fault_of_row(task.status)) return task.status;
  RowResult& faulty = *task.result;
  faulty.status = task.status.with_context(describe(role_, *piece.sequence));
  faulty.token = -1;
  faulty.logprob = 0.0f;
  faulty.top.clear();
  return {};
}

Status StepResults::take(const StepUnderWay::Piece& piece) {
  WorkResult& result = piece.item->result;
  Status outcome = failure_of_step(status_);
  const auto note = [&outcome](const Status& other) {
    if (outcome.ok() && !other.ok()) outcome = other;
  };
  const auto& tasks = step_.built.tasks;
  for (; next_task_ < tasks.size(); ++next_task_) {
    const RowTask& task = tasks[next_task_];
    if (!is_in(result.rows, task.result) && !is_in(result.scores, task.result)) break;
    note(take_task(piece, task));
  }
  const auto& rejections = step_.built.rejections;
  for (; next_rejection_ < rejections.size(); ++next_rejection_) {
    if (rejections[next_rejection_].result != &result) break;
    const Status& walked = rejections[next_rejection_].status;
    if (is_fault_of_row(walked)) {
      result.walk_status = walked.with_context(describe(role_, *piece.sequence));
    } else {
      note(walked);
    }
  }
  return outcome;
}

}  // namespace forerun
