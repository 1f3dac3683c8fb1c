// Decides which waiting request is admitted next: one for which there is a place and room in the KV
// memory. EngineLoop admits it, and RunningRequests reserves its blocks (KvReservations).
//
// Thread rules: one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/loop/preemption.h"
#include "engine/loop/running_requests.h"
#include "engine/loop/scheduled_request.h"
#include "engine/loop/sequence_specs.h"

namespace forerun {

class AdmissionPolicy {
 public:
  // At most `max_active` requests run at a time. The objects must outlive this object.
  AdmissionPolicy(int32_t max_active, const RunningRequests* running, const Preemption* preemption,
                  WaitingQueue* waiting, SequenceSpecs* specs)
      : max_active_(max_active),
        running_(running),
        preemption_(preemption),
        waiting_(waiting),
        specs_(specs) {}

  bool has_place() const { return static_cast<int32_t>(running_->size()) < max_active_; }
  // Returns the request to admit next, which stays in the queue; nothing if there is no place or
  // not enough KV memory. Sets ScheduledRequest::claim of the requests that it considers. At least
  // one request must be waiting.
  std::optional<WaitingQueue::Next> next();

 private:
  // Returns whether the KV blocks that `waits` needs are free, and memory is not short
  // (Preemption).
  bool has_room(ScheduledRequest& waits, int32_t priority);

  const int32_t max_active_;
  const RunningRequests* const running_;
  const Preemption* const preemption_;
  WaitingQueue* const waiting_;
  SequenceSpecs* const specs_;
};

}  // namespace forerun
