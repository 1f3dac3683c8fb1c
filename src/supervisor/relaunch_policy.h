// Whether a launch that was lost is started again, and how. Pure: no clock, no process.
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
  Status status;
  // The process that it began with; nothing where the message names none.
  std::optional<int32_t> rank;
  bool of_draft = false;    // the draft's devices or weights failed
  bool is_refusal = false;  // the engine cannot be made as it is asked for
  bool of_request = false;  // it died while a request was on trial (SupervisorOptions)
};

// Of a message that names ranks ("rank 2 (stage 2 of 3, host b): ..."), the one that it comes down
// to: contexts stand in front, so the last. Nothing where none of `num_ranks` is named.
std::optional<int32_t> rank_of_message(const std::string& message, int32_t num_ranks);

class RelaunchPolicy {
 public:
  // Gives up at so many failures more than `relaunches` in a row. `hosts` by rank, for messages.
  // `doubts_requests`: SupervisorOptions.
  RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                 bool doubts_requests = false);

  struct Decision {
    Status give_up;                      // not ok: nothing is started again, and this is why
    bool drop_draft = false;             // from now on without the draft
    std::chrono::milliseconds pause{0};  // before it is started again
  };
  Decision note_failure(const LaunchFailure& failure);
  // A token has come, or the launch has stood for long: it was not all in vain.
  void note_progress();
  // "rank 2 (host b)"
  std::string describe(int32_t rank) const;

 private:
  const int32_t relaunches_;
  const std::vector<std::string> hosts_;
  const bool doubts_requests_;
  bool has_draft_;
  std::vector<std::optional<int32_t>> in_vain_;  // ranks of the failures in a row
};

}  // namespace forerun
