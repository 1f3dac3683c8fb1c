// Preempts running requests: if one of them finds no KV blocks for its next rows, and if a waiting
// request outranks a running one. It preempts the request of the lowest level and, among those, the
// one with the fewest tokens: it loses the least work, and it returns before those that have not
// begun (docs/decisions/0049-priorities.md).
//
// Preemption is by recompute: a request's whole state is its tokens, and it starts again from them.
//
// Thread rules: one thread.
#pragma once

#include <cstdint>

#include "engine/info/load_meter.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "step/types.h"

namespace forerun {

class Preemption {
 public:
  // The number of times that a request may be preempted without a token in between; after that it
  // keeps running.
  static constexpr int32_t kMaxFutile = 2;

  // Moves requests from `running` to `waiting`. `load` may be null; the objects must outlive this
  // object.
  Preemption(RunningRequests* running, WaitingQueue* waiting, LoadMeter* load)
      : running_(running), waiting_(waiting), load_(load) {}

  // Handles a running request, `starved`, that has found no KV blocks: preempts one request,
  // perhaps `starved` itself, and marks memory as short. Returns false and does nothing if no other
  // request runs.
  bool make_room(const ScheduledRequest& starved);
  // Preempts a request of a lower level than `priority`, so that a waiting one gets its place and
  // its blocks. Returns false and does nothing if there is none.
  bool give_way(int32_t priority);

  // Returns whether any running request has a lower level than `priority`.
  bool outranks_one(int32_t priority) const;
  // Returns whether KV memory has run out and no request has ended since. While it is short, only
  // requests that outrank a running one are admitted: fewer requests run until one of them can end,
  // and none is restarted again and again.
  bool memory_is_short() const { return memory_is_short_; }
  // Returns whether blocks of the request that gave way last may still be in use, until after the
  // Step in flight.
  bool waits_for_blocks() const { return turns_to_wait_ > 0; }

  // Must be called when a request has ended in its turn, or host memory has run out: KV memory then
  // no longer counts as short.
  void note_end() { memory_is_short_ = false; }
  // Must be called once for each set of results, before they are handled.
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
