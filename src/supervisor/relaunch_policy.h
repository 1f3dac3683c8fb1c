// Whether a launch that was lost is started again, when, and with the draft or without. Pure: it is
// told what time it is, and starts nothing.
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
    kRefusal,   // the engine cannot be made as it is asked for
    kDraft,     // the draft's devices have failed
    kRequest,   // a process has died while a request was on trial (SupervisorOptions)
    kHostAway,  // a host does not answer
  };
  Status status;
  Kind kind = Kind::kProcess;
  // The process that it began with; nothing where that is not known.
  std::optional<int32_t> rank;
};

struct RelaunchTimes {
  using milliseconds = std::chrono::milliseconds;
  // Between the second start in a row and the third, and so on, twice as long each time.
  milliseconds first_pause{500};
  milliseconds longest_pause = std::chrono::minutes(2);
  // A failure no longer counts after that.
  milliseconds forgiven_after = std::chrono::minutes(10);
  // A draft that was left out is tried again, twice as long later each time that it fails again.
  milliseconds draft_after = std::chrono::minutes(5);
  milliseconds longest_draft_after = std::chrono::hours(1);
  // So long after that it is tried although requests are under way.
  milliseconds draft_patience = std::chrono::hours(1);
};

class RelaunchPolicy {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // So many refusals in a row with the draft are followed by a start without it.
  static constexpr int kRefusalsOfDraft = 2;

  // Gives up at more than `relaunches` failures within RelaunchTimes::forgiven_after with nothing
  // done between. `hosts` by rank, for messages.
  RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                 const RelaunchTimes& times = {});

  struct Decision {
    Status give_up;                      // not ok: nothing is started again, and this is why
    std::chrono::milliseconds pause{0};  // before it is started again
  };
  Decision note_failure(const LaunchFailure& failure, TimePoint now);
  // A launch's engine is there.
  void note_ready(TimePoint now);
  // A token has come, or the launch has stood for long: it was not all in vain.
  void note_progress();

  // Whether a launch that is started now has the draft.
  bool with_draft(TimePoint now);
  // Whether a launch without the draft is to be replaced by one with it. `is_idle`: no request is
  // under way.
  bool wants_draft_back(TimePoint now, bool is_idle) const;
  // How many starts have failed since something was done.
  int32_t failures_in_row() const { return in_row_; }
  // "rank 2 (host b)"
  std::string describe(int32_t rank) const;

 private:
  enum class Draft : uint8_t {
    kNone,       // there is none
    kUsed,       // launches have it
    kSuspected,  // one launch without it is to show whether refusals are its fault
    kLeftOut,    // it has failed; back when it is due
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
  bool is_draft_cleared_ = false;  // refused without it, too, since a launch was up
  std::vector<Failure> in_vain_;   // those that are not forgiven
  int32_t in_row_ = 0;
};

}  // namespace forerun
