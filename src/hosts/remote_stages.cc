#include "hosts/remote_stages.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/clocks.h"
#include "base/status_macros.h"
#include "hosts/stage_message_bytes.h"
#include "hosts/step_frames.h"
#include "hosts/step_tasks.h"

namespace forerun {

namespace {

constexpr std::chrono::milliseconds kBetweenDeadlineChecks{100};

}  // namespace

RemoteStages::RemoteStages(Hosts* hosts, const PipelineFacts& facts,
                           const StepDeadlineOptions& deadlines)
    : hosts_(hosts), facts_(facts), deadlines_(facts.num_stages, deadlines) {
  hosts_->messenger().listen([this](Incoming&& incoming) { take_in(std::move(incoming)); });
  watch_ = std::thread([this] { look_for_late_stages(); });
}

RemoteStages::~RemoteStages() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  watch_.join();
  hosts_->messenger().unlisten();
}

void RemoteStages::look_for_late_stages() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kBetweenDeadlineChecks, [this] { return stopping_; })) {
    const auto late = deadlines_.find_late(StepDeadlines::Clock::now());
    if (!late || !failed_.ok()) continue;
    const int32_t rank = late->stage + 1;
    fail(Status(StatusCode::kDeadlineExceeded, late->what).with_context(hosts_->describe(rank)),
         rank);
  }
}

void RemoteStages::issue(StepInTransit step) {
  Messenger& messenger = hosts_->messenger();
  const uint64_t number = step.message->step;
  Bytes frame = messenger.begin(FrameKind::kStep);
  WireWriter to(&frame);
  to("status", Status());
  write_stage_message(*step.message, to);
  Bytes tasks = messenger.begin(FrameKind::kTasks);
  WireWriter to_last(&tasks);
  to_last("step", number);
  write_tasks(step.tasks, step.rejections, to_last);
  const double work = work_of(step.message->rows, *facts_.config);
  const auto rows = static_cast<int32_t>(step.message->rows.size());
  used_ = std::move(step.message);

  const std::lock_guard lock(mutex_);
  const int64_t now_ns = steady_ns();
  under_way_.push_back({.number = number,
                        .tasks = step.tasks,
                        .rejections = step.rejections,
                        .tell = step.tell,
                        .start_ns = std::max(now_ns, entered_ns_)});
  if (!failed_.ok()) return end_under_way();
  deadlines_.issue(number, rows, work, StepDeadlines::Clock::now());
  messenger.send(1, std::move(frame));
  messenger.send(hosts_->num_stages(), std::move(tasks));
}

void RemoteStages::drop(std::span<const IssuedRow> rows) {
  for (int32_t rank = 1; rank <= hosts_->num_stages(); ++rank) {
    Bytes frame = hosts_->messenger().begin(FrameKind::kDrop);
    append_value(frame, rows);
    hosts_->messenger().send(rank, std::move(frame));
  }
}

void RemoteStages::take_in(Incoming&& incoming) {
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return;
  Status status = incoming.lost;
  int32_t rank = incoming.from;
  if (status.ok()) {
    switch (incoming.kind) {
      case FrameKind::kEntered:
        status = note_entered(incoming);
        break;
      case FrameKind::kRetired:
        status = note_retired(incoming);
        break;
      case FrameKind::kLost: {
        Loss loss;
        status = hosts_->read_loss(incoming, loss);
        if (!status.ok()) break;  // no field of an invalid message can be trusted
        status = loss.why;
        rank = loss.rank;
        break;
      }
      default:
        status = Status(StatusCode::kCorrupt, "found a message that a stage does not send");
    }
  }
  if (!status.ok()) fail(status.with_context(hosts_->describe(incoming.from)), rank);
}

void RemoteStages::tell_entered(UnderWay& step) {
  if (std::exchange(step.entered, true)) return;
  (*step.tell)({.kind = PipelineEvent::Kind::kEntered,
                .step = step.number,
                .status = {},
                .end_ns = steady_ns()});
}

// Notes the entry of a Step. The first stage's notice may arrive after the last stage's answer; the
// entry has then been reported.
Status RemoteStages::note_entered(const Incoming& incoming) {
  uint64_t number = 0;
  FORERUN_RETURN_IF_ERROR(from_bytes("step", incoming.payload(), number));
  deadlines_.pass(incoming.from - 1, number, StepDeadlines::Clock::now());
  if (incoming.from != 1) return {};
  entered_ns_ = steady_ns();
  for (UnderWay& step : under_way_) {
    if (step.number == number) {
      tell_entered(step);
    } else if (step.number == number + 1) {
      step.start_ns = std::max(step.start_ns, entered_ns_);
    }
  }
  return {};
}

Status RemoteStages::note_retired(const Incoming& incoming) {
  WireReader from(incoming.payload());
  const auto number = from.get<uint64_t>("step");
  if (under_way_.empty() || number != under_way_.front().number) {
    return Status(
        StatusCode::kCorrupt,
        "found answers of Step " + std::to_string(number) + "; accepted: " +
            (under_way_.empty() ? "none"
                                : "those of Step " + std::to_string(under_way_.front().number)));
  }
  UnderWay& step = under_way_.front();
  deadlines_.pass(incoming.from - 1, number, StepDeadlines::Clock::now());
  auto ran = from.get<Status>("status");
  FORERUN_RETURN_IF_ERROR(read_answers(from, step.tasks, step.rejections));
  tell_entered(step);
  (*step.tell)({.kind = PipelineEvent::Kind::kRetired,
                .step = number,
                .status = std::move(ran),
                .start_ns = step.start_ns,
                .end_ns = steady_ns()});
  under_way_.pop_front();
  return {};
}

void RemoteStages::fail(const Status& why, int32_t rank) {
  failed_ = why;
  hosts_->note_failure(why, rank);  // before any Step's failure is reported
  end_under_way();
}

void RemoteStages::end_under_way() {
  const int64_t now_ns = steady_ns();
  for (UnderWay& step : under_way_) {
    tell_entered(step);
    (*step.tell)({.kind = PipelineEvent::Kind::kRetired,
                  .step = step.number,
                  .status = failed_,
                  .start_ns = step.start_ns,
                  .end_ns = now_ns});
  }
  under_way_.clear();
}

}  // namespace forerun
