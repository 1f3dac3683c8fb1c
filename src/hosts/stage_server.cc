#include "hosts/stage_server.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/mailbox.h"
#include "hosts/stage_message_bytes.h"
#include "hosts/step_frames.h"
#include "hosts/step_tasks.h"

namespace forerun {
namespace {

constexpr std::chrono::microseconds kNoSpin{0};  // stages may share processors

class StageServer {
 public:
  StageServer(Hosts& hosts, StageWorker& worker, int32_t live_vocab)
      : hosts_(hosts), worker_(worker), live_vocab_(live_vocab), inbox_(kNoSpin) {}

  Status serve() {
    // The previous stage, or the link to it, may fail without the coordinator's notice.
    if (hosts_.rank() > 1) hosts_.messenger().watch(hosts_.rank() - 1);
    hosts_.messenger().listen([this](Incoming&& incoming) { take_in(std::move(incoming)); });
    const Status status = work();
    hosts_.messenger().unlisten();
    if (!status.ok()) hosts_.end(status);
    return status;
  }

 private:
  // Called on the messenger's thread: drops overtake the waiting Steps.
  void take_in(Incoming&& incoming) {
    if (incoming.lost.ok() && incoming.kind == FrameKind::kDrop) {
      WireReader from(incoming.payload());
      const auto rows = from.get<std::vector<IssuedRow>>("dropped rows");
      incoming.lost = from.finish();
      if (incoming.lost.ok()) return dropped_.add(rows);
    }
    inbox_.add(std::move(incoming));
    inbox_.wake();
  }

  Status work() {
    std::vector<Incoming> incoming;
    while (true) {
      incoming.clear();
      inbox_.take(Messenger::Clock::now() + std::chrono::hours(1), incoming);
      for (Incoming& received : incoming) {
        if (!received.lost.ok()) {
          const Status why = received.lost.with_context("of " + hosts_.describe(received.from));
          hosts_.note_failure(why, received.from);
          return why;
        }
        if (received.kind == FrameKind::kEnd) {
          hosts_.note_end();
          return {};
        }
        FORERUN_RETURN_IF_ERROR(
            handle(std::move(received)).with_context(hosts_.describe(hosts_.rank())));
      }
    }
  }

  Status handle(Incoming&& incoming) {
    if (incoming.kind == FrameKind::kTasks && incoming.from == 0 && worker_.is_last()) {
      tasks_.push_back(std::move(incoming));
    } else if (incoming.kind == FrameKind::kStep && incoming.from == hosts_.rank() - 1) {
      steps_.push_back(std::move(incoming));
    } else {
      return Status(StatusCode::kCorrupt,
                    "found a message of kind " + std::to_string(static_cast<int>(incoming.kind)) +
                        " from " + hosts_.describe(incoming.from) + ", which does not send any");
    }
    // The last stage needs both the Step and its tasks.
    while (!steps_.empty() && (!worker_.is_last() || !tasks_.empty())) {
      FORERUN_RETURN_IF_ERROR(run_step());
    }
    return {};
  }

  Status run_step() {
    const Incoming step = std::move(steps_.front());
    steps_.pop_front();
    WireReader from(step.payload());
    auto status = from.get<Status>("status");
    read_stage_message(from, message_);
    FORERUN_RETURN_IF_ERROR(from.finish());
    if (message_.step != served_ + 1) {
      return Status(StatusCode::kCorrupt, "found Step " + std::to_string(message_.step) +
                                              " out of order; accepted: Step " +
                                              std::to_string(served_ + 1));
    }
    StepTasks tasks;
    if (worker_.is_last()) FORERUN_RETURN_IF_ERROR(read_tasks(tasks, status));
    status = worker_.run(message_, status, dropped_, tasks.tasks(), tasks.rejections());
    served_ = message_.step;
    dropped_.pass(served_);
    if (!worker_.is_last()) {
      Bytes entered = hosts_.messenger().begin(FrameKind::kEntered);
      append_value(entered, served_);
      hosts_.messenger().send(0, std::move(entered));
    }
    hand_on(status, tasks);
    return {};
  }

  // Reads the tasks of the next Step. Tasks out of range fail the Step; tasks of another Step fail
  // the launch.
  Status read_tasks(StepTasks& tasks, Status& status) {
    const Incoming incoming = std::move(tasks_.front());
    tasks_.pop_front();
    WireReader from(incoming.payload());
    const auto number = from.get<uint64_t>("step");
    tasks.read(from);
    FORERUN_RETURN_IF_ERROR(from.finish());
    if (number != message_.step) {
      return Status(StatusCode::kCorrupt, "found tasks of Step " + std::to_string(number) +
                                              "; accepted: those of " +
                                              std::to_string(message_.step));
    }
    if (status.ok()) status = tasks.check(live_vocab_);
    if (status.ok()) status = tasks.check_rows(message_);
    return {};
  }

  void hand_on(const Status& status, StepTasks& tasks) {
    Messenger& messenger = hosts_.messenger();
    Bytes frame = messenger.begin(worker_.is_last() ? FrameKind::kRetired : FrameKind::kStep);
    WireWriter to(&frame);
    if (worker_.is_last()) {
      to("step", served_);
      to("status", status);
      write_answers(tasks.tasks(), tasks.rejections(), to);
      return messenger.send(0, std::move(frame));
    }
    to("status", status);
    write_stage_message(message_, to);
    messenger.send(hosts_.rank() + 1, std::move(frame));
  }

  Hosts& hosts_;
  StageWorker& worker_;
  const int32_t live_vocab_;
  CancelledRows dropped_;
  Mailbox<Incoming> inbox_;
  std::deque<Incoming> steps_;
  std::deque<Incoming> tasks_;
  StageMessage message_;
  uint64_t served_ = 0;
};

}  // namespace

Status serve_stage(Hosts& hosts, StageWorker& worker, int32_t live_vocab) {
  return StageServer(hosts, worker, live_vocab).serve();
}

}  // namespace forerun
