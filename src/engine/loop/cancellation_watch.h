// Finds the requests that must end although they have not written their last token: readers have
// cancelled them or are gone, or their deadlines have passed.
//
// A look visits every request, so the loop looks only where another thread has news, where the next
// deadline has passed, and a few times a second for completion queues that have been destroyed,
// which cancels requests without waking the loop.
//
// One thread.
#pragma once

#include "engine/loop/active_request.h"
#include "forerun/event.h"
#include "forerun/status.h"

namespace forerun {

class CancellationWatch {
 public:
  // How a request ends that must.
  struct End {
    FinishReason reason = FinishReason::kCancelled;
    Status error;  // kDeadlineExceeded with FinishReason::kError, otherwise ok
  };

  // Notes the deadline of a request that has just come.
  void add(const ActiveRequest& request);
  // Whether to look now. If so, a look has begun, and must_end() is to be called for every request.
  // `has_news`: another thread has news for the loop.
  bool begin_look(bool has_news, Clock::time_point now);
  // Whether the request must end by the time at which the look began. Notes its deadline.
  bool must_end(ActiveRequest& request);
  // How a request ends that must end.
  static End end_of(ActiveRequest& request);

 private:
  Clock::time_point look_began_{};
  Clock::time_point next_look_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();  // no later than any request's
};

}  // namespace forerun
