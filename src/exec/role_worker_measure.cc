// How RoleWorker measures Steps, on scratch sequences.
#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "exec/role_worker.h"
#include "exec/scratch_ids.h"

namespace forerun {

// Host memory that has never been written has no pages of its own: it all reads as one page of
// zeros, which stays in the processor's caches, so a Step would read its context far too fast.
// Moving each slot down by one writes the pages.
Status RoleWorker::write_scratch(const RoleSequence& sequence, int32_t context_tokens) {
  moves_.clear();
  for (int32_t slot = 1; slot < context_tokens; ++slot) moves_.push_back({slot, slot - 1});
  if (moves_.empty()) return {};
  const StepSequence view{sequence.kv.block_table().data()};
  return runner_->move_kv(view, moves_);
}

Status RoleWorker::open_scratch(SequenceId id, int32_t rows, int32_t context_tokens,
                                int32_t wants) {
  SequenceSpec spec;
  spec.sampling.temperature = 0.8f;
  spec.max_tokens = context_tokens + rows;
  open(id, spec);
  RoleSequence& sequence = *sequences_.find(id);
  FORERUN_RETURN_IF_ERROR(sequence.kv.reserve(spec.max_tokens)
                              .with_context(std::string(role_name(role_)) + ", profile"));
  for (int32_t row = 0; row < context_tokens; ++row) sequence.kv.append_prefix(0);
  FORERUN_RETURN_IF_ERROR(write_scratch(sequence, context_tokens));
  // Rows form a binary tree, which resembles a draft's.
  PendingItem item;
  item.item.sequence = id;
  item.item.role = role_;
  for (int32_t row = 0; row < rows; ++row) {
    const auto parent = static_cast<size_t>((row - 1) / 2);
    WorkRow work;
    work.node = static_cast<NodeId>(row);
    work.parent = row == 0 ? kNoNode : static_cast<NodeId>(parent);
    work.position = row == 0 ? context_tokens : item.item.rows[parent].position + 1;
    if (row < wants) work.want = role_ == Role::kTarget ? Want::kSample : Want::kTopK;
    work.count = 16;
    item.item.rows.push_back(work);
  }
  submit(std::move(item));
  return {};
}

Result<StepRecord> RoleWorker::measure(int32_t rows, int32_t context_tokens, int32_t sequences) {
  auto callback = std::exchange(on_step_, nullptr);
  StepRecord last;
  on_step_ = [&last](const StepRecord& record) {
    last = record;
    last.items = {};
    last.stages = {};
  };
  const int32_t wants = std::max(1, std::min(rows, kMeasuredWants / sequences));
  Status status;
  for (int32_t index = 0; index < sequences && status.ok(); ++index) {
    status =
        open_scratch(kFirstScratch + static_cast<SequenceId>(index), rows, context_tokens, wants);
  }
  std::vector<FinishedItem> finished;
  while (status.ok() && static_cast<int32_t>(finished.size()) < sequences) {
    step(finished);
    for (const FinishedItem& item : finished) {
      if (status.ok()) status = item.result.status;
    }
  }
  on_step_ = std::move(callback);
  for (int32_t index = 0; index < sequences; ++index) {
    forget(kFirstScratch + static_cast<SequenceId>(index));
  }
  if (!status.ok()) return status;
  return last;
}

}  // namespace forerun
