// While there is no launch: asks hosts whether they answer, and reports the result.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "supervisor/launch_supervisor.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHostPoll{50};

std::string list_of(const std::vector<std::string>& hosts) {
  std::string text = hosts.size() == 1 ? "host " : "hosts ";
  for (size_t idx = 0; idx < hosts.size(); ++idx) text += (idx > 0 ? ", " : "") + hosts[idx];
  return text + (hosts.size() == 1 ? " does not answer" : " do not answer");
}

}  // namespace

void LaunchSupervisor::pause(milliseconds duration) {
  const Clock::time_point until = Clock::now() + duration;
  std::unique_lock lock(mutex_);
  while (!stopping_ && Clock::now() < until) {
    look_after_requests();
    changed_.wait_for(lock, kHostPoll);
  }
}

bool LaunchSupervisor::ask_hosts() {
  HostQuestions questions(options_, hosts_to_ask_);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool is_over = questions.is_over();
    lock.lock();
    if (is_over) break;
    look_after_requests();
    changed_.wait_for(lock, kHostPoll);
  }
  std::vector<std::string> silent = questions.silent();
  if (!stopping_ && silent != away_) {
    log_line(LogLevel::kWarning, silent.empty()
                                     ? "all hosts answer again"
                                     : list_of(silent) + "; the next launch waits for an answer");
  }
  away_ = std::move(silent);
  return away_.empty();
}

bool LaunchSupervisor::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void LaunchSupervisor::wait_for_hosts() {
  milliseconds duration = options_.first_question_pause;
  while (!is_stopping()) {
    pause(duration);
    if (ask_hosts()) return;
    duration = std::min(2 * duration, options_.longest_question_pause);
  }
}

void LaunchSupervisor::ask_while_starting(const LaunchLink& link, Clock::time_point begun) {
  if (link.has_spoken()) return questions_.reset();
  if (questions_ != nullptr) {
    questions_->is_over();
  } else if (!hosts_to_ask_.empty() && Clock::now() - begun > options_.start_timeout / 2) {
    questions_ = std::make_unique<HostQuestions>(options_, hosts_to_ask_);
  }
}

void LaunchSupervisor::name_silent_hosts(LaunchFailure& failure) {
  if (questions_ == nullptr || failure.kind != LaunchFailure::Kind::kSilence) return;
  questions_->is_over();
  const std::vector<std::string> silent = questions_->silent();
  if (silent.empty()) return;
  failure.status = Status(failure.status.code(), failure.status.message() + ": " + list_of(silent));
}

std::string LaunchSupervisor::why_waiting() const {
  if (phase_ == Phase::kReady) return "";
  if (!away_.empty()) return list_of(away_);
  return lost_.ok() ? "the launch starts" : "the launch is started again: " + lost_.message();
}

EngineCondition LaunchSupervisor::condition() const {
  if (phase_ == Phase::kGivenUp) return EngineCondition::kGivenUp;
  if (phase_ == Phase::kReady || !lost_at_) return EngineCondition::kServing;
  const bool takes_long =
      !away_.empty() || has_failed_again_ || Clock::now() - *lost_at_ > options_.soon;
  return takes_long ? EngineCondition::kAway : EngineCondition::kServing;
}

EngineState LaunchSupervisor::state() const {
  const std::lock_guard lock(mutex_);
  EngineState state = state_;
  state.load.condition = condition();
  state.load.condition_reason = "";
  if (phase_ == Phase::kReady) return state;
  state.load.condition_reason = phase_ == Phase::kGivenUp ? given_up_.message() : why_waiting();
  state.kv_blocks = state.load.target_kv.used_blocks = state.load.draft_kv.used_blocks = 0;
  state.load.running_requests = 0;
  state.load.waiting_requests = static_cast<int32_t>(num_samples());
  return state;
}

}  // namespace forerun
