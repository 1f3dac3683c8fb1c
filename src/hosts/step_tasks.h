// What a Step's rows want, for a last stage in another process: the tasks with all that they point
// to (parameters, history, path, draft distributions), and the answers on their way back.
//
// The coordinator sends them to the last stage directly; hidden rows come there through the stages.
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

// Written as they are now: what they point to may change afterwards.
void write_tasks(std::span<const RowTask> tasks, std::span<const RejectionTask> rejections,
                 ByteWriter& to);

// Tasks that point into nothing but this. One thread.
class StepTasks {
 public:
  StepTasks() = default;
  StepTasks(StepTasks&&) = default;
  StepTasks& operator=(StepTasks&&) = default;
  // On failure, which the reader tells, there are no tasks.
  void read(ByteReader& from);
  // kInvalidArgument where something is out of range of a model of `live_vocab` tokens.
  Status check(int32_t live_vocab) const;
  // Rows that are to be verified by rejection must all be in the message, which then is whole.
  Status check_rows(const StageMessage& message) const;

  std::span<RowTask> tasks() { return tasks_; }
  std::span<RejectionTask> rejections() { return rejections_; }

 private:
  RowContext read_context(ByteReader& from);
  void read_tasks(ByteReader& from);
  void read_rejections(ByteReader& from);

  // What tasks point to stays where it is.
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
// Puts answers where the tasks that were asked say. kCorrupt, and some of them are there, where
// they are not as many.
Status read_answers(ByteReader& from, std::span<RowTask> tasks,
                    std::span<RejectionTask> rejections);

}  // namespace forerun
