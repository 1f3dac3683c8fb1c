#include "supervisor/host_watch.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHostPoll{50};

}  // namespace

HostWatch::HostWatch(const SupervisorOptions& options, SupervisorState& state)
    : options_(options),
      state_(state),
      hosts_(options.ask ? hosts_to_ask(options.hosts) : std::vector<std::string>()) {}

bool HostWatch::ask() {
  HostQuestions questions(options_, hosts_);
  while (!questions.is_over() && state_.pause(kHostPoll)) {
  }
  std::vector<std::string> silent = questions.silent();
  const bool all_answer = silent.empty();
  const std::lock_guard lock(state_.mutex);
  if (!state_.is_stopping && silent != state_.launch.silent_hosts()) {
    log_line(LogLevel::kWarning,
             all_answer ? "all hosts answer again"
                        : describe_silent(silent) + "; the next launch waits for an answer");
  }
  state_.launch.set_silent_hosts(std::move(silent));
  return all_answer;
}

void HostWatch::wait_for_all() {
  milliseconds duration = options_.first_question_pause;
  while (state_.pause(duration) && !ask())
    duration = std::min(2 * duration, options_.longest_question_pause);
}

void HostWatch::watch_start(std::chrono::steady_clock::time_point begun, bool has_spoken) {
  if (has_spoken) return end_start();
  if (start_questions_ != nullptr) {
    start_questions_->is_over();
  } else if (!hosts_.empty() &&
             std::chrono::steady_clock::now() - begun > options_.start_timeout / 2) {
    start_questions_ = std::make_unique<HostQuestions>(options_, hosts_);
  }
}

void HostWatch::name_silent(LaunchFailure& failure) {
  if (start_questions_ == nullptr || failure.kind != LaunchFailure::Kind::kSilence) return;
  start_questions_->is_over();
  const std::vector<std::string> silent = start_questions_->silent();
  if (silent.empty()) return;
  failure.status =
      Status(failure.status.code(), failure.status.message() + ": " + describe_silent(silent));
}

}  // namespace forerun
