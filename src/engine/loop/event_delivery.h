// Reports the outcome of requests' turns to readers and the load meter. Devices wait for turns, so
// a turn only notes that there is something to report; deliver() reports it while devices work.
//
// Memory may run out for a request's event (std::bad_alloc). Its reader then misses tokens, so the
// request cannot go on: drop_unsent() removes it.
//
// Thread rules: one thread.
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
  // An ended request that has not been reported to its reader yet.
  struct Ended {
    ScheduledRequest request;
    FinishReason reason = FinishReason::kLength;
    Status error;
  };

  // `load` may be null. It must outlive the object.
  explicit EventDelivery(LoadMeter* load) : load_(load) {}

  // Notes a turn of the running request.
  void note_turn(SequenceId sequence);
  // If memory runs out (std::bad_alloc), nothing is noted.
  void note_end(Ended&& ended) { ended_.push_back(std::move(ended)); }
  // Reports everything noted since the last call: first the running requests, in the order in which
  // they were noted, then those that have ended. Then lets strategies of running requests prepare
  // their next turns. Throws nothing.
  void deliver(const RunningRequests& running);
  // Removes the requests from `running` for whose events there was no memory, and tells their
  // readers. Must be called between two calls of deliver() that have something to report, since
  // deliver() notes such requests without allocating.
  void drop_unsent(RunningRequests& running);

 private:
  void send(ScheduledRequest& running) const;
  void finish(Ended& ended) const;

  LoadMeter* const load_;
  std::vector<SequenceId> turned_;  // requests with a turn since deliver(); they may repeat, or
                                    // have ended
  std::vector<SequenceId> unsent_;  // requests whose events were not sent for lack of memory; has
                                    // the capacity of turned_
  std::vector<Ended> ended_;        // requests that ended since deliver()
};

}  // namespace forerun
