#include "supervisor/relaunch_policy.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr int32_t kMaxDoublings = 20;

std::string in_minutes(milliseconds time) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time);
  if (minutes.count() > 0) return std::to_string(minutes.count()) + " minutes";
  return std::to_string(time.count()) + " ms";
}

}  // namespace

RelaunchPolicy::RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                               const RelaunchTimes& times)
    : relaunches_(relaunches),
      hosts_(std::move(hosts)),
      times_(times),
      draft_(has_draft ? Draft::kUsed : Draft::kNone),
      draft_after_(times.draft_after) {}

std::string RelaunchPolicy::describe(int32_t rank) const {
  return "rank " + std::to_string(rank) + " (host " + hosts_[static_cast<size_t>(rank)] + ")";
}

void RelaunchPolicy::note_progress() {
  in_vain_.clear();
  in_row_ = 0;
  refusals_ = 0;
}

void RelaunchPolicy::note_ready(TimePoint now) {
  refusals_ = 0;
  is_draft_cleared_ = false;
  // The engine was refused with the draft and runs without it, so the draft is at fault.
  if (draft_ == Draft::kSuspected) leave_draft_out(now);
}

bool RelaunchPolicy::with_draft(TimePoint now) {
  if (draft_ == Draft::kLeftOut && now >= draft_due_) {
    draft_ = Draft::kUsed;
    draft_back_ = now;
    refusals_ = kRefusalsOfDraft - 1;  // the draft has failed before, so one more refusal is enough
  }
  return draft_ == Draft::kUsed;
}

bool RelaunchPolicy::wants_draft_back(TimePoint now, bool is_idle) const {
  if (draft_ != Draft::kLeftOut) return false;
  return now >= (is_idle ? draft_due_ : draft_due_ + times_.draft_patience);
}

void RelaunchPolicy::leave_draft_out(TimePoint now) {
  // If the draft has worked for long since it came back, its wait starts again at the shortest.
  if (draft_back_ == TimePoint() || now - draft_back_ > times_.longest_draft_after) {
    draft_after_ = times_.draft_after;
  } else {
    draft_after_ = std::min(2 * draft_after_, times_.longest_draft_after);
  }
  draft_ = Draft::kLeftOut;
  draft_due_ = now + draft_after_;
  refusals_ = 0;
}

RelaunchPolicy::Decision RelaunchPolicy::note_failure(const LaunchFailure& failure, TimePoint now) {
  using Kind = LaunchFailure::Kind;
  // The launch caused neither failure, and waiting for a host needs no further pause.
  if (failure.kind == Kind::kRequest || failure.kind == Kind::kHostAway) return {};
  if (failure.kind == Kind::kDraft && draft_ == Draft::kUsed) {
    leave_draft_out(now);
    return {};
  }
  if (draft_ == Draft::kSuspected) {  // the launch also fails without the draft
    draft_ = Draft::kUsed;
    is_draft_cleared_ = true;
  }
  refusals_ = failure.kind == Kind::kRefusal ? refusals_ + 1 : 0;
  if (draft_ == Draft::kUsed && refusals_ >= kRefusalsOfDraft && !is_draft_cleared_) {
    draft_ = Draft::kSuspected;
    refusals_ = 0;
  }

  std::erase_if(in_vain_,
                [&](const Failure& each) { return now - each.time > times_.forgiven_after; });
  in_vain_.push_back({now, failure.rank});
  ++in_row_;
  Decision decision;
  if (static_cast<int32_t>(in_vain_.size()) > relaunches_) {
    decision.give_up = give_up(failure);
  } else if (in_row_ > 1) {
    // The first relaunch is immediate; later ones are less and less frequent.
    const int64_t times = int64_t{1} << std::min(in_row_ - 2, kMaxDoublings);
    decision.pause = std::min(times_.first_pause * times, times_.longest_pause);
  }
  return decision;
}

Status RelaunchPolicy::give_up(const LaunchFailure& failure) const {
  const auto is_of_one_host = [&](const Failure& each) {
    return each.rank && failure.rank &&
           hosts_[static_cast<size_t>(*each.rank)] == hosts_[static_cast<size_t>(*failure.rank)];
  };
  const bool one_host = std::all_of(in_vain_.begin(), in_vain_.end(), is_of_one_host);
  const std::string who =
      one_host ? "host " + hosts_[static_cast<size_t>(*failure.rank)] + " has" : "the launch has";
  // kCancelled, which HTTP reports as 503: no request is to blame, and another server may be able
  // to answer.
  return Status(StatusCode::kCancelled,
                who + " failed " + std::to_string(in_vain_.size()) + " times within " +
                    in_minutes(times_.forgiven_after) +
                    " with no work done between, and is not started again; the last failure: " +
                    failure.status.message());
}

}  // namespace forerun
