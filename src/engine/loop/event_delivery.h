// Tells readers and the load meter what the turns of requests have brought. Devices wait for turns,
// so a turn only notes that there is something to tell; deliver() tells it while devices work.
//
// Memory may run out for a request's event (std::bad_alloc). Then tokens are missing from its
// reader's events, so the request cannot go on: drop_unsent() removes it.
//
// One thread.
#pragma once

#include <utility>
#include <vector>

#include "engine/info/load_meter.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "forerun/event.h"
#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

class EventDelivery {
 public:
  // A request that has ended, whose reader is still to be told.
  struct Ended {
    ScheduledRequest request;
    FinishReason reason = FinishReason::kLength;
    Status error;
  };

  // `load` may be null. It must outlive the object.
  explicit EventDelivery(LoadMeter* load) : load_(load) {}

  // The running request has had a turn.
  void note_turn(SequenceId sequence);
  // Where there is no memory for that (std::bad_alloc), nothing is noted.
  void note_end(Ended&& ended) { ended_.push_back(std::move(ended)); }
  // Tells what has been noted since the last call, first of the requests that run, each in the
  // order in which it was noted, then of those that have ended; lets strategies of running requests
  // prepare their next turns. Throws nothing.
  void deliver(const RunningRequests& running);
  // Removes from `running` the requests for whose events there was no memory. Their readers are
  // told so. Must be called between two calls of deliver() that have something to tell, since
  // deliver() notes such requests without allocating.
  void drop_unsent(RunningRequests& running);

 private:
  void send(ScheduledRequest& running) const;
  void finish(Ended& ended) const;

  LoadMeter* const load_;
  std::vector<SequenceId> turned_;  // requests with a turn since deliver(); they may repeat, or
                                    // have ended
  std::vector<SequenceId> unsent_;  // requests whose events found no memory; as much capacity as
                                    // turned_
  std::vector<Ended> ended_;        // requests that ended since deliver()
};

}  // namespace forerun
