#include "engine/loop/cancellation_watch.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace forerun {
namespace {

// Time between two looks if there is no news.
constexpr std::chrono::milliseconds kLooks{100};

}  // namespace

void CancellationWatch::add(const ActiveRequest& request) {
  if (request.deadline()) next_deadline_ = std::min(next_deadline_, *request.deadline());
}

bool CancellationWatch::begin_look(bool has_news, Clock::time_point now) {
  if (!has_news && now < next_look_ && now < next_deadline_) return false;
  look_began_ = now;
  next_look_ = now + kLooks;
  next_deadline_ = Clock::time_point::max();
  return true;
}

bool CancellationWatch::must_end(ActiveRequest& request) {
  if (request.stream().cancelled()) return true;
  if (!request.deadline()) return false;
  if (*request.deadline() < look_began_) return true;
  add(request);
  return false;
}

CancellationWatch::End CancellationWatch::end_of(ActiveRequest& request) {
  if (request.stream().cancelled()) return {FinishReason::kCancelled, Status()};
  return {FinishReason::kError,
          Status(StatusCode::kDeadlineExceeded,
                 "the request's deadline of " + std::to_string(request.request().deadline.count()) +
                     " ms has passed")};
}

}  // namespace forerun
