#include "exec/role/step_measurer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/clocks.h"
#include "base/status_macros.h"
#include "exec/guarded.h"
#include "exec/role/step_results.h"

namespace forerun {

// Untouched host memory has no pages of its own: all of it reads as one page of zeros, which stays
// in the CPU's caches, so a Step would read its context far too fast. Moving each slot down by one
// writes the pages, once per block. A GPU's memory does not need this, and there the measured Step
// would wait for the moves.
Status StepMeasurer::write_context(const RoleSequence& sequence, int32_t context_tokens) {
  if (!runner_->has_host_kv()) return {};
  const std::span<const int32_t> table = sequence.kv.block_table();
  written_blocks_.resize(static_cast<size_t>(pool_->total_blocks()));
  std::vector<KvMove> moves;
  for (int32_t begin = 0; begin < context_tokens; begin += kKvBlockTokens) {
    const auto block = static_cast<size_t>(table[static_cast<size_t>(begin / kKvBlockTokens)]);
    if (written_blocks_[block]) continue;
    const int32_t end = std::min(begin + kKvBlockTokens, context_tokens - 1);
    written_blocks_[block] = end == begin + kKvBlockTokens;
    for (int32_t slot = begin; slot < end; ++slot) moves.push_back({slot + 1, slot});
  }
  if (moves.empty()) return {};
  const StepSequence view{table.data()};
  return guarded([&] { return runner_->move_kv(view, moves); });
}

Result<StepMeasurer::Scratch> StepMeasurer::make_scratch(SequenceId id, int32_t rows,
                                                         int32_t context_tokens, int32_t wants) {
  SequenceSpec spec;
  spec.sampling.temperature = 0.8f;
  spec.max_tokens = context_tokens + rows;
  Scratch scratch;
  scratch.sequence = std::make_unique<RoleSequence>(id, spec, pool_, /*cache=*/nullptr,
                                                    runner_->config().head_dim);
  RoleSequence& sequence = *scratch.sequence;
  FORERUN_RETURN_IF_ERROR(sequence.kv.reserve(spec.max_tokens).with_context(context()));
  for (int32_t row = 0; row < context_tokens; ++row) sequence.kv.append_prefix(0);
  FORERUN_RETURN_IF_ERROR(write_context(sequence, context_tokens));
  // The rows form a binary tree, which resembles a draft's.
  scratch.item = std::make_unique<PendingItem>();
  WorkItem& item = scratch.item->item;
  item.sequence = id;
  item.role = role_;
  for (int32_t row = 0; row < rows; ++row) {
    const auto parent = static_cast<size_t>((row - 1) / 2);
    WorkRow work;
    work.node = static_cast<NodeId>(row);
    work.parent = row == 0 ? kNoNode : static_cast<NodeId>(parent);
    work.position = row == 0 ? context_tokens : item.rows[parent].position + 1;
    if (row < wants) work.want = role_ == Role::kTarget ? Want::kSample : Want::kTopK;
    work.count = 16;
    item.rows.push_back(work);
  }
  FORERUN_RETURN_IF_ERROR(sequence.reserve(item, rows));
  return scratch;
}

Status StepMeasurer::compose(std::span<const Scratch> scratch, StepUnderWay& step) const {
  for (const auto& [sequence, item] : scratch) {
    const auto rows = static_cast<int32_t>(item->item.rows.size());
    const Status added = step.builder.add(*sequence, *item, rows);
    if (!added.ok()) return added.with_context(context());
    step.pieces.push_back({.sequence = sequence.get(),
                           .item = item.get(),
                           .first_step_row = step.builder.rows() - rows,
                           .count = rows});
  }
  step.built = step.builder.finish();
  return {};
}

Status StepMeasurer::run(StepUnderWay& step) {
  const StepBuilder::Built& built = step.built;
  step.start_ns = steady_ns();
  const Status status = guarded(
      [&] { return runner_->run(*built.step, built.tasks, built.rejections, /*meanwhile=*/{}); });
  step.end_ns = steady_ns();
  StepResults results(role_, step, status);
  for (const StepUnderWay::Piece& piece : step.pieces) {
    const Status outcome = results.take(piece);
    if (!outcome.ok()) return outcome.with_context(context());
  }
  return {};
}

Result<StepRecord> StepMeasurer::measure(int32_t rows, int32_t context_tokens, int32_t sequences,
                                         StepUnderWay& step) {
  const int32_t wants = std::max(1, std::min(rows, kMaxWants / sequences));
  std::vector<Scratch> scratch;
  for (int32_t index = 0; index < sequences; ++index) {
    const auto id = static_cast<SequenceId>(index);
    FORERUN_ASSIGN_OR_RETURN(Scratch made, make_scratch(id, rows, context_tokens, wants));
    scratch.push_back(std::move(made));
  }
  step.clear();
  const int64_t start_ns = steady_ns();
  Status status = compose(scratch, step);
  if (status.ok()) status = run(step);
  step.host_ns = (steady_ns() - start_ns) - (step.end_ns - step.start_ns);
  StepRecord record = record_of(role_, step, /*traced=*/false);
  record.items = {};
  record.stages = {};
  // The Step points to the scratch sequences, which end here.
  step.clear();
  step.built = {};
  if (!status.ok()) return status;
  return record;
}

}  // namespace forerun
