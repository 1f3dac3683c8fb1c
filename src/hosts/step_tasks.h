// Serializes the tasks of a Step's rows for a last stage in another process, with everything that
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
#include "hosts/bytes.h"
#include "sampling/token_counts.h"

namespace forerun {

// Copies everything that the tasks point to; it may change afterwards.
void write_tasks(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                 ByteWriter& to);

// Tasks together with the memory that they point to. One thread.
class StepTasks {
 public:
  StepTasks() = default;
  StepTasks(StepTasks&&) = default;
  StepTasks& operator=(StepTasks&&) = default;
  // After a failure, which the reader holds, there are no tasks.
  void read(ByteReader& from);
  // Fails with kInvalidArgument if a value is out of range for a model of `live_vocab` tokens.
  Status check(int32_t live_vocab) const;
  // If there are rejection tasks, fails unless their rows are in the message and the message is
  // whole, i.e. none of its rows may be dropped.
  Status check_rows(const StageMessage& message) const;

  std::span<RowTask> tasks() { return tasks_; }
  std::span<RejectionTask> rejections() { return rejections_; }

 private:
  RowContext read_context(ByteReader& from);
  void read_tasks(ByteReader& from);
  void read_rejections(ByteReader& from);

  // Tasks point to the elements of these vectors, which keep their addresses.
  std::vector<SamplingParams> params_;
  std::vector<TokenCounts> histories_;
  std::vector<DraftDistribution> drafts_;
  std::deque<std::vector<TokenId>> paths_;
  std::vector<RowTask> tasks_;
  std::vector<RowResult> results_;                // the tasks'
  std::vector<DraftDistribution> distributions_;  // likewise
  std::vector<std::vector<RejectionRow>> rejection_rows_;
  std::vector<WorkResult> rejection_results_;
  std::vector<RejectionTask> rejections_;
};

void write_answers(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                   ByteWriter& to);
// Stores the answers where `tasks` and `rejections` point. Fails with kCorrupt if their number
// differs from that of the tasks; some may have been stored then.
Status read_answers(ByteReader& from, std::span<RowTask> tasks,
                    std::span<RejectionTask> rejections);

}  // namespace forerun
