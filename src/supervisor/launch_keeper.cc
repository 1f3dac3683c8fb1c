#include "supervisor/launch_keeper.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/log.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{50};
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

LaunchKeeper::LaunchKeeper(SupervisorOptions options)
    : options_(std::move(options)),
      waker_(std::make_shared<WakeDescriptor>()),
      policy_(options_.relaunches, !options_.engine.draft.empty(), options_.hosts,
              options_.doubts_requests) {}

std::shared_ptr<LaunchKeeper> LaunchKeeper::start(SupervisorOptions options) {
  std::shared_ptr<LaunchKeeper> keeper(new LaunchKeeper(std::move(options)));
  keeper->thread_ = std::thread([raw = keeper.get()] { raw->run(); });
  return keeper;
}

LaunchKeeper::~LaunchKeeper() { stop(); }

void LaunchKeeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

void LaunchKeeper::run() {
  ignore_broken_pipes();
  while (true) {
    Result<std::unique_ptr<LaunchLink>> link = LaunchLink::start(options_, options_.engine);
    if (!link.ok()) return give_up(link.status());
    LaunchFailure failure = serve(**link);
    failure.of_request = has_trial();
    bool stopping = false, is_first = false;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
      is_first = !was_ready_;
    }
    (*link)->end(/*politely=*/stopping);
    if (stopping) return give_up(Status(StatusCode::kCancelled, "the engine is gone"));
    // What has never run, and says why, would say it again.
    if (is_first && ((*link)->has_left() || failure.is_refusal)) return give_up(failure.status);
    link->reset();
    const RelaunchPolicy::Decision decision = policy_.note_failure(failure);
    note_loss(failure, !decision.give_up.ok());
    if (!decision.give_up.ok()) return give_up(decision.give_up);
    if (decision.drop_draft) drop_draft();
    rest(decision.pause);
  }
}

LaunchFailure LaunchKeeper::serve(LaunchLink& link) {
  const Clock::time_point begun = Clock::now();
  while (true) {
    std::vector<DownMessage> outgoing;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return {};
      look_after_requests();
      outgoing.swap(outbox_);
      if (was_ready_ && phase_ == Phase::kReady && Clock::now() - begun > kLongEnough) {
        policy_.note_progress();
      }
    }
    for (const DownMessage& message : outgoing) link.send(message);
    std::vector<UpMessage> messages;
    const std::optional<LaunchFailure> lost = link.wait(waker_->descriptor(), kLook, messages);
    waker_->clear();
    for (UpMessage& message : messages) {
      if (auto failure = handle(std::move(message))) return *failure;
    }
    if (lost) return *lost;
  }
}

std::optional<LaunchFailure> LaunchKeeper::handle(UpMessage&& message) {
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
      break;
    case Kind::kAnswer:
      answer(message.call, message.status);
      break;
    case Kind::kEvent:
      return take_event(std::move(message));
    case Kind::kRefused:
    case Kind::kFailure: {
      LaunchFailure failure = failure_of(message.status);
      failure.is_refusal = message.kind == Kind::kRefused;
      return failure;
    }
  }
  return std::nullopt;
}

LaunchFailure LaunchKeeper::failure_of(const Status& status) const {
  LaunchFailure failure;
  failure.status = status;
  failure.rank = rank_of_message(status.message(), static_cast<int32_t>(options_.hosts.size()));
  if (!failure.rank) failure.rank = 0;  // the one that says it
  // As executors and checkpoints begin what they say of it.
  failure.of_draft = status.message().starts_with("draft");
  return failure;
}

void LaunchKeeper::note_loss(const LaunchFailure& failure, bool is_final) {
  const std::lock_guard lock(mutex_);
  if (!is_final) {
    log_line(LogLevel::kWarning,
             "the launch is lost and started again: " + failure.status.message());
  }
  phase_ = Phase::kStarting;
  parts_.clear();
  outbox_.clear();
  for (auto& [id, call] : calls_) {
    if (call.state == CallState::kAsked) call.state = CallState::kLost;
  }
  for (auto& [id, entry] : requests_) {
    // It had been asked to take this one, and has not answered: the next one is asked.
    if (entry.queue != nullptr) connect(id, entry);
  }
  if (options_.doubts_requests) doubt_requests(failure);
  for (auto& [id, entry] : requests_) {
    entry.parts.clear();
    entry.cancel_sent = false;
  }
  changed_.notify_all();
}

void LaunchKeeper::drop_draft() {
  log_line(LogLevel::kWarning, "the draft is left out from now on: stages decode plainly");
  const std::lock_guard lock(mutex_);
  has_dropped_draft_ = true;
  EngineOptions& engine = options_.engine;
  engine.draft.clear();
  engine.draft_devices.clear();
  engine.draft_weights = EngineOptions().draft_weights;
  engine.draft_window = 0;
  engine.speculation = {.strategy = "autoregressive"};
  for (auto& [id, entry] : requests_) entry.request->decode_plainly();
}

void LaunchKeeper::give_up(const Status& why) {
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

void LaunchKeeper::rest(milliseconds pause) {
  const Clock::time_point until = Clock::now() + pause;
  std::unique_lock lock(mutex_);
  while (!stopping_ && Clock::now() < until) {
    look_after_requests();
    changed_.wait_for(lock, kLook);
  }
}

}  // namespace forerun
