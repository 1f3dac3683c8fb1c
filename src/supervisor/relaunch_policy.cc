#include "supervisor/relaunch_policy.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace forerun {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5000};

}  // namespace

std::optional<int32_t> rank_of_message(const std::string& message, int32_t num_ranks) {
  constexpr std::string_view kWord = "rank ";
  std::optional<int32_t> last;
  for (size_t at = message.find(kWord); at != std::string::npos; at = message.find(kWord, at)) {
    at += kWord.size();
    int32_t rank = -1;
    const char* const end = message.data() + message.size();
    const auto [stopped, error] = std::from_chars(message.data() + at, end, rank);
    if (error == std::errc() && rank >= 0 && rank < num_ranks) last = rank;
  }
  return last;
}

RelaunchPolicy::RelaunchPolicy(int32_t relaunches, bool has_draft, std::vector<std::string> hosts,
                               bool doubts_requests)
    : relaunches_(relaunches),
      hosts_(std::move(hosts)),
      doubts_requests_(doubts_requests),
      has_draft_(has_draft) {}

std::string RelaunchPolicy::describe(int32_t rank) const {
  return "rank " + std::to_string(rank) + " (host " + hosts_[static_cast<size_t>(rank)] + ")";
}

void RelaunchPolicy::note_progress() { in_vain_.clear(); }

RelaunchPolicy::Decision RelaunchPolicy::note_failure(const LaunchFailure& failure) {
  if (failure.of_request) return {};
  in_vain_.push_back(failure.rank);
  // The coordinator holds the draft. Where it fails, and again before anything has come of it, it
  // may be the draft that it fails of: too little memory, a device that is gone.
  const auto failed = std::count(in_vain_.begin(), in_vain_.end(), std::optional<int32_t>(0));
  Decision decision;
  decision.drop_draft = has_draft_ && (failure.of_draft || (failed >= 2 && !doubts_requests_));
  if (decision.drop_draft) {
    has_draft_ = false;
    in_vain_.clear();  // what comes now is another launch
    return decision;
  }
  if (static_cast<int32_t>(in_vain_.size()) <= relaunches_) {
    // At once the first time, then less and less often.
    const size_t again = in_vain_.size() - 1;
    if (again > 0)
      decision.pause = std::min(kFirstPause * (1 << std::min<size_t>(again, 8)), kLongestPause);
    return decision;
  }
  const bool one_host = std::all_of(in_vain_.begin(), in_vain_.end(), [&](const auto& rank) {
    return rank && failure.rank &&
           hosts_[static_cast<size_t>(*rank)] == hosts_[static_cast<size_t>(*failure.rank)];
  });
  const std::string who =
      one_host ? "host " + hosts_[static_cast<size_t>(*failure.rank)] + " has" : "the launch has";
  decision.give_up =
      Status(StatusCode::kInternal,
             who + " failed " + std::to_string(in_vain_.size()) +
                 " times in a row with nothing done between, and is not started again; at last: " +
                 failure.status.message());
  return decision;
}

}  // namespace forerun
