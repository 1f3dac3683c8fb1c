// What becomes of requests where memory runs out: the process's, or a model's KV blocks.
#include <chrono>
#include <deque>
#include <new>
#include <thread>
#include <utility>

#include "engine/engine_loop.h"

namespace forerun {
namespace {

// How long the loop waits for others to give memory back.
constexpr std::chrono::microseconds kPause{2000};

}  // namespace

void EngineLoop::drop_unsent() {
  for (const SequenceId sequence : unsent_) {
    if (running_.contains(sequence)) remove(sequence);
  }
  unsent_.clear();
}

void EngineLoop::drop_at_hand() {
  memory_is_short_ = false;
  // What there was to see outside may not have been taken in.
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
      // It takes a message to a role's thread; others give memory back.
      std::this_thread::sleep_for(kPause);
    }
  }
}

void EngineLoop::make_room(const Running& starved, const Status& status) {
  if (running_.size() == 1) {
    end(starved.sequence, FinishReason::kError, status);
    return;
  }
  const auto before = [](const Running& a, const Running& b) {
    const ActiveRequest& first = *a.request;
    const ActiveRequest& second = *b.request;
    if (first.request().priority != second.request().priority) {
      return first.request().priority < second.request().priority;
    }
    if (first.tokens().size() != second.tokens().size()) {
      return first.tokens().size() < second.tokens().size();
    }
    return a.sequence > b.sequence;
  };
  const Running* least = &starved;
  for (const auto [sequence, running] : running_) {
    if (before(running, *least)) least = &running;
  }
  set_aside(least->sequence);
}

// Preemption by recompute: the request's whole state is its tokens; it starts again from them once
// others have given blocks back.
void EngineLoop::set_aside(SequenceId sequence) {
  memory_is_short_ = true;
  Running running = remove(sequence);
  report(running);
  running.request->send();
  running.driver.set_strategy(nullptr);
  running.request->note_preemption();
  if (options_.load != nullptr) options_.load->note_preemption();
  std::deque<Running>& equals = waiting_[running.request->request().priority];
  equals.push_front(std::move(running));
}

}  // namespace forerun
