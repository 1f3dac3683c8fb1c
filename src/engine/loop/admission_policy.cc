#include "engine/loop/admission_policy.h"

namespace forerun {

bool AdmissionPolicy::has_room(ScheduledRequest& waits, int32_t priority) {
  // While memory is short, a new request would be the first to be preempted again, unless it
  // outranks a running request.
  if (preemption_->memory_is_short() && !running_->empty() &&
      !preemption_->outranks_one(priority)) {
    return false;
  }
  if (!waits.claim) waits.claim.emplace(specs_->claim(*waits.request));
  return running_->has_room(*waits.claim);
}

std::optional<WaitingQueue::Next> AdmissionPolicy::next() {
  if (!has_place()) return std::nullopt;
  const Clock::time_point now = Clock::now();
  auto next = waiting_->next(now);
  if (has_room(*next.entry, next.priority)) return next;
  if (next.is_owed) {
    // A request from an owed class overtakes others only if it can start at once; otherwise it does
    // not hold them up.
    next = waiting_->next_by_level(now);
    if (has_room(*next.entry, next.priority)) return next;
  }
  if (!preemption_->memory_is_short()) return std::nullopt;
  // A request that is first by its age waits until a running one ends; a more urgent request may
  // preempt a running one.
  next = waiting_->most_urgent(now);
  if (has_room(*next.entry, next.priority)) return next;
  return std::nullopt;
}

}  // namespace forerun
