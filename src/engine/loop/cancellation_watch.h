// Finds the requests that must end early: their readers have cancelled them or are gone, or their
// deadlines have passed.
//
// A look visits every request, so the loop looks only if another thread has news, if the next
// deadline has passed, and a few times a second for destroyed completion queues, which cancel
// requests without waking the loop.
//
// Thread rules: one thread.
#pragma once

#include "engine/loop/active_request.h"
#include "forerun/event.h"
#include "forerun/status.h"

namespace forerun {

class CancellationWatch {
 public:
  // The reason and error of a request that must end.
  struct End {
    FinishReason reason = FinishReason::kCancelled;
    Status error;  // kDeadlineExceeded with FinishReason::kError, otherwise ok
  };

  // Notes the deadline of a new request.
  void add(const ActiveRequest& request);
  // Returns whether to look now. If so, a look has begun, and the caller must call must_end() for
  // every request. `has_news`: another thread has news for the loop.
  bool begin_look(bool has_news, Clock::time_point now);
  // Returns whether the request must end by the time at which the look began. Notes its deadline.
  bool must_end(ActiveRequest& request);
  // Returns the reason and error of a request that must end.
  static End end_of(ActiveRequest& request);

 private:
  Clock::time_point look_began_{};
  Clock::time_point next_look_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();  // no later than any request's
};

}  // namespace forerun
