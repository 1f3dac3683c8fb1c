#include "exec/stages/stage_worker.h"

#include <string>

#include "base/status_macros.h"
#include "exec/guarded.h"

namespace forerun {
namespace {

// Sets each task's logits_row to its row's present index in the message; marks tasks of cancelled
// rows as skipped.
void find_rows(const StageMessage& message, std::span<RowTask> tasks) {
  int32_t logits_row = 0;
  size_t task = 0;  // in the order of their rows
  for (size_t row = 0; row < message.rows.size(); ++row) {
    if (!message.rows[row].wants_logits) continue;
    const int32_t number = message.numbers[row];
    for (; task < tasks.size() && tasks[task].step_row < number; ++task) tasks[task].skipped = true;
    if (task < tasks.size() && tasks[task].step_row == number)
      tasks[task++].logits_row = logits_row;
    ++logits_row;
  }
  for (; task < tasks.size(); ++task) tasks[task].skipped = true;
}

}  // namespace

StageWorker::StageWorker(const PipelineStage& parts, int32_t stage_idx, int32_t num_stages,
                         int32_t live_vocab)
    : parts_(parts), stage_idx_(stage_idx), num_stages_(num_stages) {
  if (stage_idx + 1 < num_stages) return;
  last_ = std::make_unique<DecoderStepRunner>(parts.decoder, parts.devices, live_vocab);
}

Status StageWorker::run(StageMessage& message, const Status& so_far, const CancelledRows& dropped,
                        std::span<RowTask> tasks, std::span<RejectionTask> rejections) {
  const Status ran =
      guarded([&] { return carry_out(message, so_far, dropped, tasks, rejections); });
  if (!so_far.ok()) return so_far;
  return ran.with_context("stage " + std::to_string(stage_idx_ + 1) + " of " +
                          std::to_string(num_stages_));
}

Status StageWorker::carry_out(StageMessage& message, const Status& so_far,
                              const CancelledRows& dropped, std::span<RowTask> tasks,
                              std::span<RejectionTask> rejections) {
  Decoder& decoder = *parts_.decoder;
  rows_run_ = 0;
  FORERUN_RETURN_IF_ERROR(check_stage_message(message, decoder.kv_blocks()));
  // Carries out moves even if the Step has failed, since later Steps rely on them.
  for (const StageMessage::Moves& some : message.moves_of) {
    const auto moves =
        std::span<const KvMove>(message.moves)
            .subspan(static_cast<size_t>(some.moves.first), static_cast<size_t>(some.moves.count));
    FORERUN_RETURN_IF_ERROR(decoder.move_kv(message.sequence_of(some), moves));
  }
  if (!so_far.ok()) return so_far;
  dropped.take_out(message);
  rows_run_ = static_cast<int32_t>(message.rows.size());
  if (is_last()) find_rows(message, tasks);
  if (message.rows.empty()) return {};
  message.view(step_);
  if (!is_last()) {
    FORERUN_RETURN_IF_ERROR(hand_on(message));
    dropped.take_out(message);
    return {};
  }
  if (!step_.taps.empty()) {
    FORERUN_RETURN_IF_ERROR(decoder.write_taps(step_.taps, message.kept_taps));
  }
  return last_->run(step_, tasks, rejections, {});
}

Status StageWorker::hand_on(StageMessage& message) {
  Decoder& decoder = *parts_.decoder;
  if (decoder.tap_places() == 0) step_.taps.clear();  // no tap lies behind a layer of this stage
  FORERUN_RETURN_IF_ERROR(decoder.forward(step_));
  const HiddenRows hidden = decoder.hidden();
  message.hidden_dtype = hidden.dtype;
  message.hidden_width = hidden.width;
  message.hidden.assign(hidden.bytes.begin(), hidden.bytes.end());
  if (step_.taps.empty()) return {};
  kept_taps_.clear();
  FORERUN_RETURN_IF_ERROR(decoder.read_taps(step_.taps, kept_taps_));
  message.add_kept_taps(kept_taps_);
  return {};
}

}  // namespace forerun
