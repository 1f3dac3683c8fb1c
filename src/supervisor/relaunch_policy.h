// Decides whether a lost launch is started again, when, and with or without the draft. Pure:
// callers pass the time, and it starts nothing itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// The reason why a launch has ended.
struct LaunchFailure {
  enum class Kind : uint8_t {
    kProcess,   // a process has died, or has sent an invalid message
    kSilence,   // a process was silent for too long, or the launch did not start in time
    kRefusal,   // the engine cannot be made with these options
    kDraft,     // the draft's devices have failed
    kRequest,   // a process has died while a request was on trial (SupervisorOptions)
    kHostAway,  // a host does not answer
  };
  Status status;
  Kind kind = Kind::kProcess;
  // The rank where the failure began; unset if unknown.
  std::optional<int32_t> rank;
};

struct RelaunchTimes {
  using milliseconds = std::chrono::milliseconds;
  // The pause between the second start in a row and the third; each further pause is twice as long.
  milliseconds first_pause{500};
  milliseconds longest_pause = std::chrono::minutes(2);
  // Age after which a failure no longer counts.
  milliseconds forgiven_after = std::chrono::minutes(10);
  // Time after which a draft that was left out is tried again; it doubles each time the draft fails
  // again.
  milliseconds draft_after = std::chrono::minutes(5);
  milliseconds longest_draft_after = std::chrono::hours(1);
  // Further time after which the draft is tried even if requests are running.
  milliseconds draft_patience = std::chrono::hours(1);
};

class RelaunchPolicy {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Number of refusals in a row with the draft after which a start without it follows.
  static constexpr int kRefusalsOfDraft = 2;

  // Gives up after more than `relaunches` failures within RelaunchTimes::forgiven_after without
  // progress between them. `hosts`, by rank, are for messages.
  RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                 const RelaunchTimes& times = {});

  struct Decision {
    Status give_up;                      // not ok: no further start, with the reason
    std::chrono::milliseconds pause{0};  // pause before the next start
  };
  Decision note_failure(const LaunchFailure& failure, TimePoint now);
  // Records that the engine of a launch is ready.
  void note_ready(TimePoint now);
  // Notes a token, or that the launch has run for long: earlier failures no longer count.
  void note_progress();

  // Returns whether a launch that is started now should have the draft.
  bool with_draft(TimePoint now);
  // Returns whether a launch without the draft should be replaced by one with it. `is_idle`: no
  // request is running.
  bool wants_draft_back(TimePoint now, bool is_idle) const;
  // Returns how many starts have failed since the last progress.
  int32_t failures_in_row() const { return in_row_; }
  // Returns "rank 2 (host b)".
  std::string describe(int32_t rank) const;

 private:
  enum class Draft : uint8_t {
    kNone,       // there is no draft
    kUsed,       // launches have the draft
    kSuspected,  // one launch without the draft will show whether it causes the refusals
    kLeftOut,    // it has failed, and comes back after its wait
  };
  struct Failure {
    TimePoint time;
    std::optional<int32_t> rank;
  };
  void leave_draft_out(TimePoint now);
  Status give_up(const LaunchFailure& failure) const;

  const int32_t relaunches_;
  const std::vector<std::string> hosts_;
  const RelaunchTimes times_;
  Draft draft_;
  TimePoint draft_due_{};
  TimePoint draft_back_{};
  std::chrono::milliseconds draft_after_;
  int refusals_ = 0;  // number of refusals in a row
  // A launch without the draft was refused as well, so the draft is not the cause; false again once
  // a launch runs.
  bool is_draft_cleared_ = false;
  std::vector<Failure> in_vain_;  // failures that still count
  int32_t in_row_ = 0;
};

}  // namespace forerun
