// How EngineLoop handles requests when host memory or KV blocks run out, and requests that give way
// to more urgent ones.
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "engine/loop/engine_loop.h"

namespace forerun {
namespace {

// How long the loop waits for others to give memory back.
constexpr std::chrono::microseconds kPause{2000};
// How often a request may be preempted for others without emitting a token in between; after that
// it keeps running.
constexpr int32_t kMaxFutilePreemptions = 2;

}  // namespace

void EngineLoop::drop_unsent() {
  for (const SequenceId sequence : unsent_) {
    if (running_.contains(sequence)) remove(sequence);
  }
  unsent_.clear();
}

void EngineLoop::drop_at_hand() {
  memory_is_short_ = false;
  // News from other threads may not have been handled completely.
  waker_->wake();
  if (at_hand_ == kAll) {
    while (!running_.empty()) remove((*running_.begin()).id);
  } else if (running_.contains(at_hand_)) {
    remove(at_hand_);
  }
}

void EngineLoop::close(SequenceId sequence) {
  while (true) {
    try {
      return executor_->close(sequence);
    } catch (const std::bad_alloc&) {
      // Closing needs memory for a message to a role's thread; wait until other requests free some.
      std::this_thread::sleep_for(kPause);
    }
  }
}

bool EngineLoop::loses_less(const Running& first, const Running& second) {
  if (first.level != second.level) return first.level < second.level;
  const size_t first_tokens = first.request->tokens().size();
  const size_t second_tokens = second.request->tokens().size();
  if (first_tokens != second_tokens) return first_tokens < second_tokens;
  return first.sequence > second.sequence;
}

void EngineLoop::make_room(const Running& starved, const Status& status) {
  if (running_.size() == 1) {
    end(starved.sequence, FinishReason::kError, status);
    return;
  }
  const Running* least = &starved;
  for (const auto [sequence, running] : running_) {
    if (loses_less(running, *least)) least = &running;
  }
  memory_is_short_ = true;
  preempt(least->sequence);
}

bool EngineLoop::outranks_one(int32_t priority) const {
  for (const auto [sequence, running] : running_) {
    if (running.level < priority) return true;
  }
  return false;
}

bool EngineLoop::give_way(int32_t priority) {
  Running* least = nullptr;
  for (const auto [sequence, running] : running_) {
    if (running.level >= priority || running.futile_preemptions >= kMaxFutilePreemptions) continue;
    if (least == nullptr || loses_less(running, *least)) least = &running;
  }
  if (least == nullptr) return false;
  ++least->futile_preemptions;
  preempt(least->sequence);
  return true;
}

// Preemption by recompute: the request's whole state is its tokens; it starts again from them once
// others have given blocks back.
void EngineLoop::preempt(SequenceId sequence) {
  Running running = remove(sequence);
  report(running);
  running.request->send();
  running.driver.set_strategy(nullptr);
  running.request->note_preemption();
  if (options_.load != nullptr) options_.load->note_preemption();
  const int32_t priority = running.request->request().priority;
  const Clock::time_point since = Clock::now() - running.waited;
  waiting_.push_front(priority, std::move(running), since);
}

}  // namespace forerun
