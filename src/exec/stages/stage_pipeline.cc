#include "exec/stages/stage_pipeline.h"

#include <cassert>
#include <chrono>
#include <utility>
#include <vector>

namespace forerun {
StagePipeline::StagePipeline(std::unique_ptr<StageTransport> transport)
    : next_(std::make_unique<StageMessage>()),
      ran_(kNoSpin),
      tell_ran_([this](PipelineEvent event) {
        if (event.kind != PipelineEvent::Kind::kRetired) return;
        ran_.add(std::move(event));
        ran_.wake();
      }),
      transport_(std::move(transport)) {}

Status StagePipeline::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  next_->add_moves(sequence, moves);
  return {};
}

uint64_t StagePipeline::issue(const Step& step, std::span<RowTask> tasks,
                              std::span<RejectionTask> rejections, std::span<const int32_t> dropped,
                              const std::function<void(PipelineEvent)>* tell) {
  assert(step.features.empty() && (step.taps.empty() || tap_places() > 0));
  next_->step = ++issued_;
  next_->add_rows(step);
  next_->whole = !rejections.empty();
  next_->drop_rows(dropped);
  transport_->issue({std::move(next_), tasks, rejections, tell});
  next_ = transport_->take_used();
  if (next_ == nullptr) next_ = std::make_unique<StageMessage>();
  next_->clear();
  return issued_;
}

Status StagePipeline::run(const Step& step, std::span<RowTask> tasks,
                          std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  if (!step.features.empty()) {
    return Status(StatusCode::kUnsupported,
                  "step: found features of rows; accepted: none, since a head is not cut into "
                  "stages");
  }
  if (!step.taps.empty() && tap_places() == 0) {
    return Status(StatusCode::kUnsupported,
                  "step: found taps of rows; accepted: none, for stages that keep none");
  }
  issue(step, tasks, rejections, {}, &tell_ran_);
  if (meanwhile) meanwhile();
  std::vector<PipelineEvent> events;
  while (events.empty())
    ran_.take(std::chrono::steady_clock::now() + std::chrono::hours(1), events);
  return std::move(events.front().status);
}

}  // namespace forerun
