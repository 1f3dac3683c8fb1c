#include "exec/cpu_step_runner.h"

#include <algorithm>

namespace forerun {

CpuStepRunner::CpuStepRunner(Decoder* decoder, CpuDeviceGroup* devices, int32_t live_vocab)
    : decoder_(decoder),
      devices_(devices),
      live_vocab_(std::min(live_vocab, decoder->config().vocab_size)),
      workers_(static_cast<size_t>(devices->team_size(0))) {}

void CpuStepRunner::perform(size_t index, std::span<RowTask> tasks,
                            std::span<RejectionTask> rejections, Worker& worker) {
  const MatrixView<const float> logits = decoder_->logits(0).values;
  if (index < tasks.size()) {
    RowTask& task = tasks[index];
    perform_task({logits.row(task.logits_row), static_cast<size_t>(live_vocab_)}, worker.scratch,
                 task);
  } else {
    perform_rejection(logits, live_vocab_, worker.scratch, worker.children,
                      rejections[index - tasks.size()]);
  }
}

Status CpuStepRunner::run(const Step& step, std::span<RowTask> tasks,
                          std::span<RejectionTask> rejections) {
  FORERUN_RETURN_IF_ERROR(decoder_->forward(step));
  const size_t count = tasks.size() + rejections.size();
  if (count == 0) return {};
  if (count == 1) {
    perform(0, tasks, rejections, workers_[0]);  // waking the team costs more than it saves
    return {};
  }
  return devices_->run([&](const GroupMember& member) {
    const Team& team = member.team;
    const auto rank = static_cast<size_t>(team.rank());
    for (size_t index = rank; index < count; index += static_cast<size_t>(team.size())) {
      perform(index, tasks, rejections, workers_[rank]);
    }
  });
}

int32_t common_live_vocab(const ModelConfig& target, const ModelConfig* draft) {
  const int32_t vocab = target.live_vocab_size.value_or(target.vocab_size);
  if (draft == nullptr) return vocab;
  return std::min(vocab, draft->live_vocab_size.value_or(draft->vocab_size));
}

}  // namespace forerun
