#include "supervisor/launch_cycle.h"

#include <pthread.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "supervisor/engine_totals.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinkPoll{50};
// After a launch has run for this long, its start was worth the cost.
constexpr std::chrono::seconds kLongEnough{60};

// Makes writing to a dead process an error instead of a signal.
void ignore_broken_pipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

LaunchCycle::LaunchCycle(const SupervisorOptions& options, const WakeDescriptor& waker,
                         SupervisorState& state)
    : options_(options),
      waker_(waker),
      state_(state),
      policy_(options.relaunches, !options.engine.draft.empty(), options.hosts, options.times),
      hosts_(options, state) {}

void LaunchCycle::run() {
  ignore_broken_pipes();
  while (true) {
    if (state_.stops()) return give_up(Status(StatusCode::kCancelled, "the engine is gone"));
    bool is_worth_another = true;
    std::optional<LaunchFailure> failure = run_launch(is_worth_another);
    if (state_.stops()) return give_up(Status(StatusCode::kCancelled, "the engine is gone"));
    if (!failure) {
      note_loss(Status(StatusCode::kCancelled, "it is replaced by one with the draft"));
      continue;
    }
    if (!is_worth_another) return give_up(failure->status);
    log_line(LogLevel::kWarning,
             "the launch is lost and started again: " + failure->status.message());
    note_loss(failure->status);
    if (!prepare_another(*failure)) return;
  }
}

std::optional<LaunchFailure> LaunchCycle::run_launch(bool& is_worth_another) {
  const auto was_ready = [this] {
    const std::lock_guard lock(state_.mutex);
    return state_.launch.was_ready();
  };
  const auto has_trial = [this] {
    const std::lock_guard lock(state_.mutex);
    return state_.requests.has_trial();
  };
  const EngineOptions engine = next_engine();
  Result<std::unique_ptr<LaunchLink>> link = LaunchLink::start(options_, engine);
  if (!link.ok()) {
    is_worth_another = was_ready();
    return LaunchFailure{.status = link.status(), .rank = {}};
  }
  std::optional<LaunchFailure> failure = serve(**link);
  // If a process dies while a request is on trial, the request is blamed.
  if (failure && is_death(*failure) && has_trial()) failure->kind = LaunchFailure::Kind::kRequest;
  if (failure) hosts_.name_silent(*failure);
  hosts_.end_start();
  (*link)->end(/*politely=*/!failure);
  // If a launch fails with a reason before it has run, another start would fail for the same
  // reason.
  const bool has_said_why = failure && ((*link)->has_left() || !(*link)->has_spoken() ||
                                        failure->kind == LaunchFailure::Kind::kRefusal);
  is_worth_another = was_ready() || !has_said_why;
  return failure;
}

bool LaunchCycle::is_death(const LaunchFailure& failure) const {
  using Kind = LaunchFailure::Kind;
  // Between hosts, silence is more often the link's fault than a process's, so it does not count as
  // a death.
  return failure.kind == Kind::kProcess || failure.kind == Kind::kRequest ||
         (failure.kind == Kind::kSilence && !options_.ask);
}

bool LaunchCycle::prepare_another(LaunchFailure& failure) {
  const bool all_answer = hosts_.ask();
  if (!all_answer) failure.kind = LaunchFailure::Kind::kHostAway;
  if (options_.doubts_requests && is_death(failure)) {
    const std::lock_guard lock(state_.mutex);
    state_.requests.count_death(failure.status);
  }
  const RelaunchPolicy::Decision decision = policy_.note_failure(failure, Clock::now());
  if (!decision.give_up.ok()) {
    log_line(LogLevel::kError, decision.give_up.message());
    give_up(decision.give_up);
    return false;
  }
  if (decision.pause.count() > 0) {
    log_line(LogLevel::kInfo,
             "the next start is in " + std::to_string(decision.pause.count()) + " ms");
  }
  state_.pause(decision.pause);
  if (!all_answer || decision.pause > options_.longest_question_pause) hosts_.wait_for_all();
  return true;
}

EngineOptions LaunchCycle::next_engine() {
  const bool with_draft = policy_.with_draft(Clock::now());
  EngineOptions engine = options_.engine;
  if (engine.draft.empty()) return engine;
  const std::lock_guard lock(state_.mutex);
  const bool had_draft = state_.launch.has_draft();
  state_.launch.set_has_draft(with_draft);
  if (had_draft && !with_draft) {
    log_line(LogLevel::kWarning,
             "the draft is left out: the target decodes plainly until it is tried again");
  } else if (!had_draft && with_draft) {
    log_line(LogLevel::kWarning, "the draft is tried again");
  }
  if (with_draft) return engine;
  engine.draft.clear();
  engine.draft_devices.clear();
  engine.draft_weights = EngineOptions().draft_weights;
  engine.draft_window = 0;
  engine.speculation = {.strategy = "autoregressive"};
  return engine;
}

std::optional<LaunchFailure> LaunchCycle::serve(LaunchLink& link) {
  const Clock::time_point begun = Clock::now();
  while (true) {
    std::vector<DownMessage> outgoing;
    {
      const std::lock_guard lock(state_.mutex);
      if (state_.is_stopping) return std::nullopt;
      const Clock::time_point now = Clock::now();
      state_.requests.look_after(now);
      outgoing = state_.calls.take_messages();
      if (state_.launch.is_ready()) {
        if (now - begun > kLongEnough) policy_.note_progress();
        if (policy_.wants_draft_back(now, state_.requests.size() == 0)) return std::nullopt;
      }
    }
    hosts_.watch_start(begun, link.has_spoken());
    for (const DownMessage& message : outgoing) link.send(message);
    std::vector<UpMessage> messages;
    const std::optional<LaunchFailure> lost = link.wait(waker_.descriptor(), kLinkPoll, messages);
    waker_.clear();
    for (UpMessage& message : messages) {
      if (auto failure = handle(std::move(message))) return *failure;
    }
    if (lost) return *lost;
  }
}

std::optional<LaunchFailure> LaunchCycle::handle(UpMessage&& message) {
  using Kind = UpMessage::Kind;
  const std::lock_guard lock(state_.mutex);
  switch (message.kind) {
    case Kind::kPing:
      break;
    case Kind::kProgress:
      state_.progress.emplace(std::move(message.text), message.fraction);
      state_.changed.notify_all();
      break;
    case Kind::kReady:
      be_ready(std::move(message.info));
      break;
    case Kind::kState:
      state_.reported = std::move(message.state);
      // Requests can continue without the draft for now, but a failed draft device does not recover
      // by itself.
      if (state_.launch.has_draft() && state_.reported.load.draft_faults > 0) {
        return LaunchFailure{
            .status = Status(StatusCode::kInternal, "the draft's devices have failed"),
            .kind = LaunchFailure::Kind::kDraft,
            .rank = 0};
      }
      break;
    case Kind::kAnswer:
      state_.calls.answer(message.call, message.status, message.result);
      state_.requests.take_answer(message.call, message.status);
      break;
    case Kind::kEvent: {
      SupervisedRequests::Taken taken = state_.requests.take_event(std::move(message));
      if (taken.has_tokens) policy_.note_progress();
      return std::move(taken.failure);
    }
    case Kind::kRefused:
    case Kind::kFailure:
      return failure_of(message);
  }
  return std::nullopt;
}

void LaunchCycle::be_ready(EngineInfo&& info) {
  if (!state_.launch.was_ready()) state_.info = std::move(info);
  state_.launch.note_ready();
  add_totals(state_.ended, std::exchange(state_.reported, {}));
  policy_.note_ready(Clock::now());
  state_.requests.hand_over_all();
  log_line(LogLevel::kInfo, "the launch is up; requests that wait for it: " +
                                std::to_string(state_.requests.size()));
  state_.changed.notify_all();
}

LaunchFailure LaunchCycle::failure_of(const UpMessage& message) const {
  LaunchFailure failure;
  failure.status = message.status;
  if (message.kind == UpMessage::Kind::kRefused) failure.kind = LaunchFailure::Kind::kRefusal;
  // A lost stage has died or is silent, according to the status code.
  if (message.status.code() == StatusCode::kDeadlineExceeded) {
    failure.kind = LaunchFailure::Kind::kSilence;
  }
  const auto num_ranks = static_cast<int32_t>(options_.hosts.size());
  if (message.rank && *message.rank >= 0 && *message.rank < num_ranks) failure.rank = message.rank;
  return failure;
}

void LaunchCycle::note_loss(const Status& why) {
  const std::lock_guard lock(state_.mutex);
  state_.launch.note_loss(why, Clock::now());
  state_.calls.lose();
  state_.requests.note_loss();
}

void LaunchCycle::give_up(const Status& why) {
  const std::lock_guard lock(state_.mutex);
  state_.launch.give_up(why);
  state_.calls.refuse(why);
  state_.requests.end_all(why, /*is_cancelled=*/state_.is_stopping);
  state_.changed.notify_all();
}

}  // namespace forerun
