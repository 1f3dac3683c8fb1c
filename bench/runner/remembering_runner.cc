#include "runner/remembering_runner.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun::bench {
namespace {

constexpr size_t kMaxRows = 256;  // maximum rows of the model's Steps

}  // namespace

RememberingRunner::RememberingRunner(std::unique_ptr<StepRunner> model, RememberedGuesses* memory)
    : ForwardingRunner(std::move(model)),
      memory_(*memory),
      histories_(kv_blocks()),
      slots_(static_cast<size_t>(kv_blocks() * kKvBlockTokens)) {}

RememberingRunner::Slot& RememberingRunner::slot_at(const StepSequence& sequence, int32_t slot) {
  const int64_t block = sequence.block_table[slot / kKvBlockTokens];
  return slots_[static_cast<size_t>(block * kKvBlockTokens + slot % kKvBlockTokens)];
}

void RememberingRunner::ask(const Step& step, const StepRow& row, RowTask* task,
                            std::vector<Asked>& asked) {
  const StepSequence& sequence = step.sequences[static_cast<size_t>(row.sequence_idx)];
  for (int32_t position = 0; position < row.visible; ++position) {
    StepRow seen = row;
    seen.slot =
        position < row.boundary
            ? position
            : step.ancestors[static_cast<size_t>(row.ancestor_begin + position - row.boundary)];
    Slot& slot = slot_at(sequence, seen.slot);
    const bool is_row = position + 1 == row.visible;
    if (!is_row && std::exchange(slot.has_kv, true)) continue;
    slot.has_kv = true;
    seen.token = slot.token;
    seen.position = position;
    seen.visible = position + 1;
    seen.boundary = std::min(row.boundary, seen.visible);
    seen.wants_logits = is_row;
    asked.push_back({seen, is_row ? task : nullptr});
  }
}

Status RememberingRunner::run_model(const Step& step, std::span<const Asked> asked) {
  Step part;
  part.sequences = step.sequences;
  part.ancestors = step.ancestors;
  std::vector<RowTask> tasks;
  std::vector<RowTask*> origins;
  for (const Asked& each : asked) {
    if (each.task != nullptr) {
      origins.push_back(each.task);
      RowTask& task = tasks.emplace_back(*each.task);
      task.step_row = static_cast<int32_t>(part.rows.size());
      task.logits_row = static_cast<int32_t>(tasks.size()) - 1;
    }
    part.rows.push_back(each.row);
  }
  FORERUN_RETURN_IF_ERROR(inner().run(part, tasks, {}, {}));
  for (size_t idx = 0; idx < tasks.size(); ++idx) origins[idx]->status = tasks[idx].status;
  return {};
}

Status RememberingRunner::run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask>,
                              const Meanwhile& meanwhile) {
  if (meanwhile) meanwhile();
  std::vector<uint64_t> wanted;  // histories of the rows that want logits
  for (const StepRow& row : step.rows) {
    const uint64_t history = histories_.append(step, row);
    slot_at(step.sequences[static_cast<size_t>(row.sequence_idx)], row.slot) = {row.token, false};
    if (row.wants_logits) wanted.push_back(history);
  }
  std::vector<Asked> asked;
  for (RowTask& task : tasks) {
    const Guesses& known = memory_[wanted[static_cast<size_t>(task.logits_row)]];
    if (known.count >= task.count) {
      task.result->top.assign(
          known.top.begin(),
          known.top.begin() + std::min<std::ptrdiff_t>(task.count, std::ssize(known.top)));
    } else {
      ask(step, step.rows[static_cast<size_t>(task.step_row)], &task, asked);
    }
  }
  const std::span<const Asked> all = asked;
  for (size_t begin = 0; begin < all.size(); begin += kMaxRows) {
    FORERUN_RETURN_IF_ERROR(
        run_model(step, all.subspan(begin, std::min(kMaxRows, all.size() - begin))));
  }
  for (const Asked& each : asked) {
    if (each.task == nullptr || !each.task->status.ok()) continue;
    memory_[wanted[static_cast<size_t>(each.task->logits_row)]] = {each.task->count,
                                                                   each.task->result->top};
  }
  return {};
}

Status RememberingRunner::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  histories_.move(sequence, moves);
  for (const KvMove& each : moves) {
    slot_at(sequence, each.to_slot) = slot_at(sequence, each.from_slot);
  }
  return inner().move_kv(sequence, moves);
}

}  // namespace forerun::bench
