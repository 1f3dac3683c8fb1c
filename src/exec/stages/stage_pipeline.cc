#include "exec/stages/stage_pipeline.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clocks.h"
#include "exec/guarded.h"

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kNoSpin{0};  // stages may share processors

}  // namespace

struct StagePipeline::Stage {
  PipelineStage parts;
  Mailbox<Envelope> inbox{kNoSpin};
  std::thread thread;
};

StagePipeline::StagePipeline(std::vector<PipelineStage> stages, int32_t live_vocab)
    : last_(stages.back().decoder, stages.back().devices, live_vocab),
      next_(std::make_unique<StageMessage>()),
      used_(kNoSpin),
      ran_(kNoSpin),
      tell_ran_([this](PipelineEvent event) {
        if (event.kind != PipelineEvent::Kind::kRetired) return;
        ran_.add(std::move(event));
        ran_.wake();
      }) {
  for (PipelineStage& parts : stages) {
    kv_block_bytes_ += parts.decoder->kv_block_bytes();
    stages_.emplace_back(std::make_unique<Stage>())->parts = parts;
  }
  for (size_t idx = 0; idx < stages_.size(); ++idx) {
    stages_[idx]->thread = std::thread([this, idx] { work(idx); });
  }
}

StagePipeline::~StagePipeline() {
  for (const auto& stage : stages_) {
    stage->inbox.add({});
    stage->inbox.wake();
  }
  for (const auto& stage : stages_) stage->thread.join();
}

Status StagePipeline::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  next_->add_moves(sequence, moves);
  return {};
}

uint64_t StagePipeline::issue(const Step& step, std::span<RowTask> tasks,
                              std::span<RejectionTask> rejections, std::span<const int32_t> dropped,
                              const std::function<void(PipelineEvent)>* tell) {
  Envelope envelope{.message = std::move(next_),
                    .tasks = tasks,
                    .rejections = rejections,
                    .tell = tell,
                    .num_rows = step.rows.size(),
                    .status = {}};
  envelope.message->step = ++issued_;
  envelope.message->add_rows(step);
  if (rejections.empty()) envelope.message->drop_rows(dropped);
  stages_.front()->inbox.add(std::move(envelope));
  stages_.front()->inbox.wake();
  used_.take(Clock::now(), free_);
  if (free_.empty()) free_.push_back(std::make_unique<StageMessage>());
  next_ = std::move(free_.back());
  free_.pop_back();
  next_->clear();
  return issued_;
}

Status StagePipeline::run(const Step& step, std::span<RowTask> tasks,
                          std::span<RejectionTask> rejections, const Meanwhile& meanwhile) {
  issue(step, tasks, rejections, {}, &tell_ran_);
  if (meanwhile) meanwhile();
  std::vector<PipelineEvent> events;
  while (events.empty()) ran_.take(Clock::now() + std::chrono::hours(1), events);
  return std::move(events.front().status);
}

// All at once: a stage that leaves a row out must not then find one that sees it.
void StagePipeline::drop(std::span<const IssuedRow> rows) {
  const std::lock_guard lock(dropping_);
  for (const IssuedRow& row : rows) dropped_[row.step].push_back(row.row);
}

void StagePipeline::drop_rows(Envelope& envelope) {
  if (!envelope.rejections.empty()) return;
  const std::lock_guard lock(dropping_);
  const auto dropped = dropped_.find(envelope.message->step);
  if (dropped != dropped_.end()) envelope.message->drop_rows(dropped->second);
}

void StagePipeline::find_rows(const StageMessage& message, std::span<RowTask> tasks) {
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

Status StagePipeline::run_stage(size_t stage_idx, Envelope& envelope, Step& step) {
  Decoder& decoder = *stages_[stage_idx]->parts.decoder;
  StageMessage& message = *envelope.message;
  FORERUN_RETURN_IF_ERROR(check_stage_message(message, decoder.kv_blocks()));
  // Also of a Step that has failed: later ones count on what it has moved.
  for (const StageMessage::Moves& some : message.moves_of) {
    const auto moves =
        std::span<const KvMove>(message.moves)
            .subspan(static_cast<size_t>(some.moves.first), static_cast<size_t>(some.moves.count));
    FORERUN_RETURN_IF_ERROR(decoder.move_kv(message.sequence_of(some), moves));
  }
  if (!envelope.status.ok()) return envelope.status;
  drop_rows(envelope);
  const bool last = stage_idx + 1 == stages_.size();
  if (last && envelope.num_rows > message.rows.size()) find_rows(message, envelope.tasks);
  if (message.rows.empty()) return {};
  message.view(step);
  if (last) {
    return last_.run(step, envelope.tasks, envelope.rejections, {});
  }
  FORERUN_RETURN_IF_ERROR(decoder.forward(step));
  const HiddenRows hidden = decoder.hidden();
  message.hidden_dtype = hidden.dtype;
  message.hidden_width = hidden.width;
  message.hidden.assign(hidden.bytes.begin(), hidden.bytes.end());
  return {};
}

void StagePipeline::work(size_t stage_idx) {
  Stage& stage = *stages_[stage_idx];
  if (stage.parts.devices != nullptr) stage.parts.devices->pin_caller();
  const bool last = stage_idx + 1 == stages_.size();
  std::vector<Envelope> envelopes;
  Step step;
  while (true) {
    envelopes.clear();
    stage.inbox.take(Clock::now() + std::chrono::hours(1), envelopes);
    for (Envelope& envelope : envelopes) {
      if (envelope.message == nullptr) return;
      const uint64_t number = envelope.message->step;
      const std::function<void(PipelineEvent)>& tell = *envelope.tell;
      if (stage_idx == 0) envelope.start_ns = steady_ns();
      const Status ran = guarded([&] { return run_stage(stage_idx, envelope, step); });
      if (envelope.status.ok() && !ran.ok()) {
        envelope.status = ran.with_context("stage " + std::to_string(stage_idx + 1) + " of " +
                                           std::to_string(stages_.size()));
      }
      if (stage_idx == 0) {
        tell({.kind = PipelineEvent::Kind::kEntered, .step = number, .status = {}});
      }
      if (!last) {
        Mailbox<Envelope>& next = stages_[stage_idx + 1]->inbox;
        next.add(std::move(envelope));
        next.wake();
        continue;
      }
      {
        const std::lock_guard lock(dropping_);
        dropped_.erase(dropped_.begin(), dropped_.upper_bound(number));
      }
      used_.add(std::move(envelope.message));  // taken when there is a need
      tell({.kind = PipelineEvent::Kind::kRetired,
            .step = number,
            .status = std::move(envelope.status),
            .start_ns = envelope.start_ns,
            .end_ns = steady_ns()});
    }
  }
}

}  // namespace forerun
