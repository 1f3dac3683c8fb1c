#include "exec/stages/stage_threads.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clocks.h"
#include "device/cpu/short_slices.h"

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct StageThreads::Stage {
  Stage(const PipelineStage& parts, int32_t stage_idx, int32_t num_stages, int32_t live_vocab)
      : worker(parts, stage_idx, num_stages, live_vocab) {}

  StageWorker worker;
  Mailbox<Arrival> inbox{kNoSpin};
  std::thread thread;
};

StageThreads::StageThreads(const std::vector<PipelineStage>& stages, int32_t live_vocab)
    : used_(kNoSpin) {
  facts_.config = &stages.back().decoder->config();
  facts_.live_vocab = std::min(live_vocab, facts_.config->vocab_size);
  facts_.kv_blocks = stages.back().decoder->kv_blocks();
  facts_.tap_places = stages.back().decoder->tap_places();
  facts_.num_stages = static_cast<int32_t>(stages.size());
  for (const PipelineStage& parts : stages) {
    facts_.kv_block_bytes += parts.decoder->kv_block_bytes();
    stages_.push_back(std::make_unique<Stage>(parts, static_cast<int32_t>(stages_.size()),
                                              facts_.num_stages, live_vocab));
  }
  for (size_t idx = 0; idx < stages_.size(); ++idx) {
    stages_[idx]->thread = std::thread([this, idx] {
      ask_for_short_slices();
      work(idx);
    });
  }
}

StageThreads::~StageThreads() {
  for (const auto& stage : stages_) {
    stage->inbox.add({});
    stage->inbox.wake();
  }
  for (const auto& stage : stages_) stage->thread.join();
}

void StageThreads::issue(StepInTransit step) {
  Mailbox<Arrival>& first = stages_.front()->inbox;
  first.add({.step = std::move(step), .status = {}});
  first.wake();
}

std::unique_ptr<StageMessage> StageThreads::take_used() {
  used_.take(Clock::now(), free_);
  if (free_.empty()) return nullptr;
  std::unique_ptr<StageMessage> message = std::move(free_.back());
  free_.pop_back();
  return message;
}

void StageThreads::work(size_t stage_idx) {
  Stage& stage = *stages_[stage_idx];
  CpuDeviceGroup* const devices = stage.worker.parts().devices;
  if (devices != nullptr) devices->pin_caller();
  std::vector<Arrival> arrivals;
  while (true) {
    arrivals.clear();
    stage.inbox.take(Clock::now() + std::chrono::hours(1), arrivals);
    for (Arrival& arrival : arrivals) {
      StepInTransit& step = arrival.step;
      if (step.message == nullptr) return;
      const uint64_t number = step.message->step;
      const std::function<void(PipelineEvent)>& tell = *step.tell;
      if (stage_idx == 0) arrival.stages.reserve(stages_.size());
      const int64_t start_ns = steady_ns();
      arrival.status =
          stage.worker.run(*step.message, arrival.status, dropped_, step.tasks, step.rejections);
      const int64_t end_ns = steady_ns();
      arrival.stages.push_back({.rows = stage.worker.rows_run(),
                                .start_ns = start_ns,
                                .end_ns = end_ns,
                                .sent_ns = end_ns});
      if (stage_idx == 0) {
        tell({.kind = PipelineEvent::Kind::kEntered,
              .step = number,
              .status = {},
              .end_ns = end_ns});
      }
      if (!stage.worker.is_last()) {
        Mailbox<Arrival>& next = stages_[stage_idx + 1]->inbox;
        next.add(std::move(arrival));
        next.wake();
        continue;
      }
      dropped_.pass(number);
      used_.add(std::move(step.message));  // for the next message
      tell({.kind = PipelineEvent::Kind::kRetired,
            .step = number,
            .status = std::move(arrival.status),
            .start_ns = arrival.stages.front().start_ns,
            .end_ns = end_ns,
            .stages = std::move(arrival.stages)});
    }
  }
}

}  // namespace forerun
