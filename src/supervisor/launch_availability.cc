#include "supervisor/launch_availability.h"

#include "supervisor/host_questions.h"

namespace forerun {

void LaunchAvailability::note_ready() {
  phase_ = Phase::kReady;
  was_ready_ = true;
  lost_at_.reset();
  has_failed_again_ = false;
  silent_hosts_.clear();
}

void LaunchAvailability::note_loss(const Status& why, TimePoint now) {
  phase_ = Phase::kStarting;
  lost_ = why;
  has_failed_again_ = lost_at_.has_value();
  if (!lost_at_) lost_at_ = now;
}

void LaunchAvailability::give_up(const Status& why) {
  phase_ = Phase::kGivenUp;
  given_up_ = why;
}

std::string LaunchAvailability::why_waiting() const {
  if (is_ready()) return "";
  if (!silent_hosts_.empty()) return describe_silent(silent_hosts_);
  return lost_.ok() ? "the launch starts" : "the launch is started again: " + lost_.message();
}

EngineCondition LaunchAvailability::condition(TimePoint now) const {
  if (has_given_up()) return EngineCondition::kGivenUp;
  if (is_ready() || !lost_at_) return EngineCondition::kServing;
  const bool takes_long = !silent_hosts_.empty() || has_failed_again_ || now - *lost_at_ > soon_;
  return takes_long ? EngineCondition::kAway : EngineCondition::kServing;
}

std::string LaunchAvailability::condition_reason() const {
  return has_given_up() ? given_up_.message() : why_waiting();
}

}  // namespace forerun
