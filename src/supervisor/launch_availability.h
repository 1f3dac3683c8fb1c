// Tracks whether a launch serves requests; if not, the reason, and the time since the last launch.
//
// Thread rules: used under the supervisor's lock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

class LaunchAvailability {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `soon`: SupervisorOptions::soon.
  explicit LaunchAvailability(std::chrono::milliseconds soon) : soon_(soon) {}

  // Records that the engine of a launch is ready.
  void note_ready();
  // Records that the launch, or the start of one, has failed.
  void note_loss(const Status& why, TimePoint now);
  // Records that no launch will follow.
  void give_up(const Status& why);
  // Sets the hosts that do not answer, among those asked since a launch was ready.
  void set_silent_hosts(std::vector<std::string> hosts) { silent_hosts_ = std::move(hosts); }
  const std::vector<std::string>& silent_hosts() const { return silent_hosts_; }
  // Sets whether the present or next launch has the requested draft.
  void set_has_draft(bool has_draft) { has_draft_ = has_draft; }
  bool has_draft() const { return has_draft_; }

  bool is_ready() const { return phase_ == Phase::kReady; }
  bool was_ready() const { return was_ready_; }
  bool has_given_up() const { return phase_ == Phase::kGivenUp; }
  // Returns why no launch will follow; ok while has_given_up() is false.
  const Status& why_given_up() const { return given_up_; }
  // Returns when the last launch was lost; nothing while one is ready, and before the first.
  std::optional<TimePoint> lost_at() const { return lost_at_; }
  // Returns the reason why requests wait, for messages; empty while there is a launch.
  std::string why_waiting() const;
  EngineCondition condition(TimePoint now) const;
  // Returns the reason for condition(), for messages; empty while there is a launch.
  std::string condition_reason() const;

 private:
  enum class Phase : uint8_t { kStarting, kReady, kGivenUp };

  const std::chrono::milliseconds soon_;
  Phase phase_ = Phase::kStarting;
  bool was_ready_ = false;
  bool has_draft_ = true;
  Status given_up_;
  Status lost_;  // the reason of the last loss
  std::optional<TimePoint> lost_at_;
  bool has_failed_again_ = false;  // a start has failed since the last loss
  std::vector<std::string> silent_hosts_;
};

}  // namespace forerun
