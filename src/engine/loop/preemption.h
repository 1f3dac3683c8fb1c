// Preempts running requests: where one of them finds no KV blocks for its next rows, and where a
// waiting request outranks one that runs. The request of the least level that has the fewest tokens
// is preempted: it loses the least work, and comes back before those that have not begun
// (docs/decisions/0049-priorities.md).
//
// Preemption is by recompute: a request's whole state is its tokens. It starts again from them.
//
// One thread.
#pragma once

#include <cstdint>

#include "engine/info/load_meter.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "step/types.h"

namespace forerun {

class Preemption {
 public:
  // How often a request may be preempted for others without a token in between; after that it keeps
  // running.
  static constexpr int32_t kMaxFutile = 2;

  // Moves requests from `running` to `waiting`. `load` may be null; the objects must outlive this
  // one.
  Preemption(RunningRequests* running, WaitingQueue* waiting, LoadMeter* load)
      : running_(running), waiting_(waiting), load_(load) {}

  // A running request, `starved`, has found no KV blocks. Preempts one, perhaps `starved` itself,
  // and memory is short from then on. Returns false and does nothing where no other request runs.
  bool make_room(const ScheduledRequest& starved);
  // Preempts a request of a lower level than `priority`, so that a waiting one gets its place and
  // its blocks. Returns false and does nothing where there is none.
  bool give_way(int32_t priority);

  // Whether any running request has a lower level than `priority`.
  bool outranks_one(int32_t priority) const;
  // Whether KV memory has run out and no request has ended since. If so, no request is admitted
  // that outranks none: fewer requests run until one of them can end, and none is restarted again
  // and again.
  bool memory_is_short() const { return memory_is_short_; }
  // Whether blocks may still have to return from the request that gave way last, which takes until
  // after the Step in flight.
  bool waits_for_blocks() const { return turns_to_wait_ > 0; }

  // Must be called when a request has ended in its turn, or host memory has run out: KV memory
  // counts as short no longer.
  void note_end() { memory_is_short_ = false; }
  // Must be called once for results that have come, before they are handled.
  void note_turn() {
    if (turns_to_wait_ > 0) --turns_to_wait_;
  }

 private:
  void preempt(SequenceId sequence);

  RunningRequests* const running_;
  WaitingQueue* const waiting_;
  LoadMeter* const load_;
  bool memory_is_short_ = false;
  int32_t turns_to_wait_ = 0;
};

}  // namespace forerun
