#include "exec/cpu_step_runner.h"

#include <algorithm>

namespace forerun {

CpuStepRunner::CpuStepRunner(Decoder* decoder, CpuDeviceGroup* devices, int32_t live_vocab)
    : decoder_(decoder),
      devices_(devices),
      live_vocab_(std::min(live_vocab, decoder->config().vocab_size)) {
  for (int32_t rank = 0; rank < devices->degree(); ++rank) {
    workers_.emplace_back(static_cast<size_t>(devices->team_size(rank)));
  }
}

void CpuStepRunner::perform(size_t index, std::span<RowTask> tasks,
                            std::span<RejectionTask> rejections, Collectives* peers,
                            Worker& worker) {
  const int32_t rank = peers == nullptr ? 0 : peers->rank();
  const LogitsPart part = decoder_->logits(rank);
  const StepLogits logits{part.values, part.first_token, live_vocab_, peers};
  if (index < tasks.size()) {
    if (rank == 0) return perform_task(logits, worker.scratch, tasks[index]);
    RowTask task = tasks[index];
    task.result = &worker.row_result;
    worker.row_result.top.clear();
    perform_task(logits, worker.scratch, task);
    return;
  }
  RejectionTask& asked = rejections[index - tasks.size()];
  if (rank == 0) return perform_rejection(logits, worker.scratch, worker.children, asked);
  RejectionTask task = asked;
  task.result = &worker.result;
  worker.result.accepted.clear();
  perform_rejection(logits, worker.scratch, worker.children, task);
}

Status CpuStepRunner::run(const Step& step, std::span<RowTask> tasks,
                          std::span<RejectionTask> rejections) {
  FORERUN_RETURN_IF_ERROR(decoder_->forward(step));
  const size_t count = tasks.size() + rejections.size();
  if (count == 0) return {};
  const bool alone = devices_->degree() == 1;
  if (count == 1 && alone) {
    // Waking the team costs more than it saves.
    perform(0, tasks, rejections, nullptr, workers_[0][0]);
    return {};
  }
  const auto columns = static_cast<size_t>(devices_->smallest_team());
  return devices_->run([&](const GroupMember& member) {
    const auto rank = static_cast<size_t>(member.team.rank());
    Worker& worker = workers_[static_cast<size_t>(member.peers.rank())][rank];
    // Members of one rank, one of each device, have the same rows.
    for (size_t index = rank; rank < columns && index < count; index += columns) {
      perform(index, tasks, rejections, alone ? nullptr : &member.peers, worker);
    }
  });
}

int32_t common_live_vocab(const ModelConfig& target, const ModelConfig* draft) {
  const int32_t vocab = target.live_vocab_size.value_or(target.vocab_size);
  if (draft == nullptr) return vocab;
  return std::min(vocab, draft->live_vocab_size.value_or(draft->vocab_size));
}

}  // namespace forerun
