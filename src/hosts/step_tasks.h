// Serializes the tasks of a Step's rows for a last stage in another process, with all data that
// they point to (parameters, history, path, draft distributions), and the answers on their way
// back.
//
// The coordinator sends tasks to the last stage directly; hidden rows reach it through the stages.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "sampling/token_counts.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

// Copies all data that the tasks point to; it may change afterwards.
void write_tasks(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                 WireWriter& to);

// The objects that rows of tasks point to. The elements keep their addresses once all have been
// read.
struct SharedThings {
  std::vector<SamplingParams> params;
  std::vector<TokenCounts> histories;
  std::vector<DraftDistribution> drafts;
  std::deque<std::vector<TokenId>> paths;
};

// Tasks together with the memory that they point to. Thread rules: one thread.
class StepTasks {
 public:
  StepTasks() = default;
  StepTasks(StepTasks&&) = default;
  StepTasks& operator=(StepTasks&&) = default;
  // After a failure, which the reader holds, there are no tasks.
  void read(WireReader& from);
  // Fails with kInvalidArgument if a value is out of range for a model of `live_vocab` tokens.
  Status check(int32_t live_vocab) const;
  // If there are rejection tasks, fails unless their rows are in the message and the message is
  // complete, i.e. none of its rows may be dropped.
  Status check_rows(const StageMessage& message) const;

  std::span<RowTask> tasks() { return tasks_; }
  std::span<RejectionTask> rejections() { return rejections_; }

 private:
  // Tasks point to the elements of all of these, which keep their addresses.
  SharedThings shared_;
  std::vector<RowTask> tasks_;
  std::vector<RowResult> results_;                // results that the tasks point to
  std::vector<DraftDistribution> distributions_;  // distributions that the tasks point to
  std::vector<std::vector<RejectionRow>> rejection_rows_;
  std::vector<WorkResult> rejection_results_;
  std::vector<RejectionTask> rejections_;
};

void write_answers(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                   WireWriter& to);
// Stores the answers where `tasks` and `rejections` point. Fails with kCorrupt if their number
// differs from that of the tasks; some may have been stored by then.
Status read_answers(WireReader& from, std::span<RowTask> tasks,
                    std::span<RejectionTask> rejections);

}  // namespace forerun
