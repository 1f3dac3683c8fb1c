#include "supervisor/launch_supervisor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/log.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kLinkPoll{50};
// A launch that has stood for so long was worth starting.
constexpr std::chrono::seconds kLongEnough{60};

// Writing to a process that has died is an error, and no signal.
void ignore_broken_pipes() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

LaunchSupervisor::LaunchSupervisor(SupervisorOptions options)
    : options_(std::move(options)),
      waker_(std::make_shared<WakeDescriptor>()),
      hosts_to_ask_(options_.ask ? hosts_to_ask(options_.hosts) : std::vector<std::string>()),
      policy_(options_.relaunches, !options_.engine.draft.empty(), options_.hosts, options_.times) {
}

std::shared_ptr<LaunchSupervisor> LaunchSupervisor::start(SupervisorOptions options) {
  std::shared_ptr<LaunchSupervisor> supervisor(new LaunchSupervisor(std::move(options)));
  supervisor->thread_ = std::thread([raw = supervisor.get()] { raw->run(); });
  return supervisor;
}

LaunchSupervisor::~LaunchSupervisor() { stop(); }

void LaunchSupervisor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

void LaunchSupervisor::run() {
  ignore_broken_pipes();
  while (true) {
    if (is_stopping()) return give_up(Status(StatusCode::kCancelled, "the engine is gone"));
    bool is_worth_another = true;
    std::optional<LaunchFailure> failure = run_launch(is_worth_another);
    if (is_stopping()) return give_up(Status(StatusCode::kCancelled, "the engine is gone"));
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

std::optional<LaunchFailure> LaunchSupervisor::run_launch(bool& is_worth_another) {
  const auto was_ready = [this] {
    const std::lock_guard lock(mutex_);
    return was_ready_;
  };
  const EngineOptions engine = next_engine();
  Result<std::unique_ptr<LaunchLink>> link = LaunchLink::start(options_, engine);
  if (!link.ok()) {
    is_worth_another = was_ready();
    return LaunchFailure{.status = link.status(), .rank = {}};
  }
  std::optional<LaunchFailure> failure = serve(**link);
  // A death while a request is on trial is put down to that request.
  if (failure && is_death(*failure) && has_trial()) failure->kind = LaunchFailure::Kind::kRequest;
  if (failure) name_silent_hosts(*failure);
  questions_.reset();
  (*link)->end(/*politely=*/!failure);
  // A launch that has never run and says why would only say the same again.
  const bool has_said_why = failure && ((*link)->has_left() || !(*link)->has_spoken() ||
                                        failure->kind == LaunchFailure::Kind::kRefusal);
  is_worth_another = was_ready() || !has_said_why;
  return failure;
}

bool LaunchSupervisor::is_death(const LaunchFailure& failure) const {
  using Kind = LaunchFailure::Kind;
  // Between hosts, silence is more likely a link's than a process's, so it does not count as a
  // death.
  return failure.kind == Kind::kProcess || failure.kind == Kind::kRequest ||
         (failure.kind == Kind::kSilence && !options_.ask);
}

bool LaunchSupervisor::prepare_another(LaunchFailure& failure) {
  const bool all_answer = ask_hosts();
  if (!all_answer) failure.kind = LaunchFailure::Kind::kHostAway;
  {
    const std::lock_guard lock(mutex_);
    if (options_.doubts_requests) doubt_requests(failure);
  }
  const RelaunchPolicy::Decision decision = policy_.note_failure(failure, SteadyClock::now());
  if (!decision.give_up.ok()) {
    log_line(LogLevel::kError, decision.give_up.message());
    give_up(decision.give_up);
    return false;
  }
  if (decision.pause.count() > 0) {
    log_line(LogLevel::kInfo,
             "the next start is in " + std::to_string(decision.pause.count()) + " ms");
  }
  pause(decision.pause);
  if (!all_answer || decision.pause > options_.longest_question_pause) wait_for_hosts();
  return true;
}

EngineOptions LaunchSupervisor::next_engine() {
  const bool with_draft = policy_.with_draft(SteadyClock::now());
  EngineOptions engine = options_.engine;
  const std::lock_guard lock(mutex_);
  if (engine.draft.empty()) return engine;
  const bool had_draft = std::exchange(has_draft_, with_draft);
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

std::optional<LaunchFailure> LaunchSupervisor::serve(LaunchLink& link) {
  const SteadyClock::time_point begun = SteadyClock::now();
  while (true) {
    std::vector<DownMessage> outgoing;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return std::nullopt;
      look_after_requests();
      outgoing.swap(outbox_);
      const SteadyClock::time_point now = SteadyClock::now();
      if (phase_ == Phase::kReady) {
        if (now - begun > kLongEnough) policy_.note_progress();
        if (policy_.wants_draft_back(now, requests_.empty())) return std::nullopt;
      }
    }
    ask_while_starting(link, begun);
    for (const DownMessage& message : outgoing) link.send(message);
    std::vector<UpMessage> messages;
    const std::optional<LaunchFailure> lost = link.wait(waker_->descriptor(), kLinkPoll, messages);
    waker_->clear();
    for (UpMessage& message : messages) {
      if (auto failure = handle(std::move(message))) return *failure;
    }
    if (lost) return *lost;
  }
}

std::optional<LaunchFailure> LaunchSupervisor::handle(UpMessage&& message) {
  using Kind = UpMessage::Kind;
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case Kind::kPing:
      break;
    case Kind::kProgress:
      progress_.emplace(std::move(message.text), message.fraction);
      changed_.notify_all();
      break;
    case Kind::kReady:
      be_ready(std::move(message.info));
      break;
    case Kind::kState:
      state_ = std::move(message.state);
      // Requests can go on without the draft for now, but a failed draft device does not recover by
      // itself.
      if (has_draft_ && state_.load.draft_faults > 0) {
        return LaunchFailure{
            .status = Status(StatusCode::kInternal, "the draft's devices have failed"),
            .kind = LaunchFailure::Kind::kDraft,
            .rank = 0};
      }
      break;
    case Kind::kAnswer:
      answer(message.call, message.status, message.result);
      break;
    case Kind::kEvent:
      return take_event(std::move(message));
    case Kind::kRefused:
    case Kind::kFailure:
      return failure_of(message);
  }
  return std::nullopt;
}

LaunchFailure LaunchSupervisor::failure_of(const UpMessage& message) const {
  LaunchFailure failure;
  failure.status = message.status;
  if (message.kind == UpMessage::Kind::kRefused) failure.kind = LaunchFailure::Kind::kRefusal;
  // A lost stage has died or is silent; the status code tells which.
  if (message.status.code() == StatusCode::kDeadlineExceeded) {
    failure.kind = LaunchFailure::Kind::kSilence;
  }
  const auto num_ranks = static_cast<int32_t>(options_.hosts.size());
  if (message.rank && *message.rank >= 0 && *message.rank < num_ranks) failure.rank = message.rank;
  return failure;
}

void LaunchSupervisor::note_loss(const Status& why) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kStarting;
  lost_ = why;
  has_failed_again_ = lost_at_.has_value();
  if (!lost_at_) lost_at_ = SteadyClock::now();
  parts_.clear();
  outbox_.clear();
  for (auto& [id, call] : calls_) {
    if (call.state == CallState::kAsked) call.state = CallState::kLost;
  }
  for (auto& [id, entry] : requests_) {
    // It had been asked to take this one, and has not answered: the next one is asked.
    if (entry.queue != nullptr) connect(id, entry);
    entry.died_fresh = !entry.parts.empty() && entry.is_fresh;
    entry.parts.clear();
    entry.cancel_sent = false;
  }
  changed_.notify_all();
}

void LaunchSupervisor::give_up(const Status& why) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kGivenUp;
  given_up_ = why;
  for (auto& [id, call] : calls_) {
    if (call.state == CallState::kAsked) call = {CallState::kAnswered, 0, why};
  }
  for (auto& [id, entry] : requests_) {
    if (entry.queue != nullptr) continue;  // its submitter is told
    const bool cancelled = stopping_ || entry.request->is_cancelled();
    entry.request->end(cancelled ? FinishReason::kCancelled : FinishReason::kError,
                       cancelled ? Status() : why);
  }
  requests_.clear();
  parts_.clear();
  changed_.notify_all();
}

}  // namespace forerun
