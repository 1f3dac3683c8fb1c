#include "engine/loop/preemption.h"

#include <cstddef>
#include <utility>

namespace forerun {
namespace {

// Both roles may have a Step in flight, and each is followed by a turn.
constexpr int32_t kTurnsForBlocks = 4;

// Returns whether to preempt `first` rather than `second`.
bool loses_less(const ScheduledRequest& first, const ScheduledRequest& second) {
  if (first.level != second.level) return first.level < second.level;
  const size_t first_tokens = first.request->tokens().size();
  const size_t second_tokens = second.request->tokens().size();
  if (first_tokens != second_tokens) return first_tokens < second_tokens;
  return first.sequence > second.sequence;
}

}  // namespace

bool Preemption::make_room(const ScheduledRequest& starved) {
  if (running_->size() == 1) return false;
  const ScheduledRequest* least = &starved;
  for (const auto [sequence, running] : *running_) {
    if (loses_less(running, *least)) least = &running;
  }
  memory_is_short_ = true;
  preempt(least->sequence);
  return true;
}

bool Preemption::give_way(int32_t priority) {
  ScheduledRequest* least = nullptr;
  for (const auto [sequence, running] : *running_) {
    if (running.level >= priority || running.futile_preemptions >= kMaxFutile) continue;
    if (least == nullptr || loses_less(running, *least)) least = &running;
  }
  if (least == nullptr) return false;
  ++least->futile_preemptions;
  preempt(least->sequence);
  turns_to_wait_ = kTurnsForBlocks;
  return true;
}

bool Preemption::outranks_one(int32_t priority) const {
  for (const auto [sequence, running] : *running_) {
    if (running.level < priority) return true;
  }
  return false;
}

void Preemption::preempt(SequenceId sequence) {
  ScheduledRequest preempted = running_->remove(sequence);
  preempted.report(load_);
  preempted.request->send();
  preempted.driver.set_strategy(nullptr);
  preempted.request->note_preemption();
  if (load_ != nullptr) load_->note_preemption();
  const int32_t priority = preempted.request->request().priority;
  const Clock::time_point since = Clock::now() - preempted.waited;
  waiting_->push_front(priority, std::move(preempted), since);
}

}  // namespace forerun
