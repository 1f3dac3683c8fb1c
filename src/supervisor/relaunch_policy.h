// Decides whether a lost launch is started again, when, and with or without the draft. Pure: it is
// told the time, and starts nothing itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Why a launch has ended.
struct LaunchFailure {
  enum class Kind : uint8_t {
    kProcess,   // a process has died, or what it said was no message
    kSilence,   // nothing was heard of a process, or the launch has not come up
    kRefusal,   // the engine cannot be made with these options
    kDraft,     // the draft's devices have failed
    kRequest,   // a process has died while a request was on trial (SupervisorOptions)
    kHostAway,  // a host does not answer
  };
  Status status;
  Kind kind = Kind::kProcess;
  // The rank that the failure began with; nothing where that is not known.
  std::optional<int32_t> rank;
};

struct RelaunchTimes {
  using milliseconds = std::chrono::milliseconds;
  // The pause between the second start in a row and the third; each further one is twice as long.
  milliseconds first_pause{500};
  milliseconds longest_pause = std::chrono::minutes(2);
  // After this time a failure no longer counts.
  milliseconds forgiven_after = std::chrono::minutes(10);
  // After this time a draft that was left out is tried again; the time doubles each time that the
  // draft fails again.
  milliseconds draft_after = std::chrono::minutes(5);
  milliseconds longest_draft_after = std::chrono::hours(1);
  // After this further time it is tried even if requests are under way.
  milliseconds draft_patience = std::chrono::hours(1);
};

class RelaunchPolicy {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // After this many refusals in a row with the draft, a start without it follows.
  static constexpr int kRefusalsOfDraft = 2;

  // Gives up at more than `relaunches` failures within RelaunchTimes::forgiven_after with no work
  // done between. `hosts` by rank, for messages.
  RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                 const RelaunchTimes& times = {});

  struct Decision {
    Status give_up;                      // not ok: nothing is started again, and this is why
    std::chrono::milliseconds pause{0};  // pause before it is started again
  };
  Decision note_failure(const LaunchFailure& failure, TimePoint now);
  // The engine of a launch is ready.
  void note_ready(TimePoint now);
  // A token has come, or the launch has been up for long: earlier failures count no longer.
  void note_progress();

  // Whether a launch that is started now should have the draft.
  bool with_draft(TimePoint now);
  // Whether a launch without the draft is to be replaced by one with it. `is_idle`: no request is
  // under way.
  bool wants_draft_back(TimePoint now, bool is_idle) const;
  // How many starts have failed since work was last done.
  int32_t failures_in_row() const { return in_row_; }
  // "rank 2 (host b)"
  std::string describe(int32_t rank) const;

 private:
  enum class Draft : uint8_t {
    kNone,       // there is none
    kUsed,       // launches have it
    kSuspected,  // one launch without it will show whether refusals are its fault
    kLeftOut,    // it has failed, and comes back when it is due
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
  int refusals_ = 0;               // in a row
  bool is_draft_cleared_ = false;  // since a launch was up, one without the draft was refused, too
  std::vector<Failure> in_vain_;   // failures that still count
  int32_t in_row_ = 0;
};

}  // namespace forerun
