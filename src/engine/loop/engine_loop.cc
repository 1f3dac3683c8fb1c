#include "engine/loop/engine_loop.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "device/cpu/short_slices.h"
#include "step/step.h"

namespace forerun {
namespace {

// Longest time that the loop waits for a result before it looks at submissions and cancellations
// again.
constexpr std::chrono::microseconds kTimeout{2000};

// Finishes a waiting request and notifies its reader.
void finish(ScheduledRequest& waits, FinishReason reason, Status error) {
  waits.request->finish(reason, std::move(error), waits.driver.stats(), "none");
}

}  // namespace

EngineLoop::EngineLoop(Options options, std::unique_ptr<Executor> executor)
    : options_(std::move(options)),
      executor_(std::move(executor)),
      waiting_(options_.priority_ageing),
      batch_(options_.costs, options_.drafts_sequentially),
      running_(executor_.get(), &batch_, options_.load, options_.draft_keeps_all),
      specs_(options_.share_prefixes),
      preemption_(&running_, &waiting_, options_.load),
      admission_(options_.max_active, &running_, &preemption_, &waiting_, &specs_),
      automatic_(options_.automatic, options_.costs, executor_.get()),
      strategies_(&batch_, options_.recorder != nullptr),
      turns_(executor_.get(), &running_, &strategies_, &automatic_, options_.load),
      events_(options_.load) {
  executor_->set_meanwhile([this] { deliver(); });
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  submissions_.stop();
  thread_.join();
}

void EngineLoop::submit(std::unique_ptr<ActiveRequest> request) {
  submissions_.submit(std::move(request));
}

void EngineLoop::run() {
  ask_for_short_slices();  // the thread may be a member of a device's team of threads
  if (options_.on_thread_start) options_.on_thread_start();
  while (true) {
    if (running_.empty() && waiting_.empty()) {
      deliver();
      if (options_.on_idle) options_.on_idle();
      submissions_.waker()->wait();
    }
    if (submissions_.is_stopping()) break;
    try {
      run_turns();
    } catch (const std::bad_alloc&) {
      drop_at_hand();
    }
  }
  try {
    end_all();
  } catch (const std::bad_alloc&) {
    drop_at_hand();
  }
  deliver();
}

void EngineLoop::run_turns() {
  at_hand_ = kNone;
  look_outside();
  if (automatic_.take_change()) {
    change_plans([this](ActiveRequest& request) { return automatic_.follow(request); });
  }
  admit();
  at_hand_ = kAll;
  std::optional<WorkResult> result = executor_->next(kTimeout);
  if (!result) deliver();
  events_.drop_unsent(running_);
  turn_begin_ = Clock::now();
  if (result) preemption_.note_turn();
  // Handles all results of a Step before anything else.
  for (; result; result = executor_->next_at_hand()) handle(*result);
}

void EngineLoop::end_all() {
  at_hand_ = kAll;
  take_submissions();
  while (!running_.empty()) end((*running_.begin()).id, FinishReason::kCancelled, Status());
  waiting_.keep_if([](ScheduledRequest& each) {
    finish(each, FinishReason::kCancelled, Status());
    return false;
  });
}

void EngineLoop::look_outside() {
  const bool has_news = submissions_.waker()->take_news();
  if (has_news) take_submissions();
  if (!cancellations_.begin_look(has_news, Clock::now())) return;
  end_cancelled_and_late();
  if (!has_news) return;
  change_plans([](ActiveRequest& request) { return request.take_wanted_plan(); });
}

void EngineLoop::take_submissions() {
  std::deque<std::unique_ptr<ActiveRequest>> submitted = submissions_.take();
  const Clock::time_point now = Clock::now();
  for (std::unique_ptr<ActiveRequest>& request : submitted) {
    cancellations_.add(*request);
    automatic_.begin(*request);
    const int32_t priority = request->request().priority;
    ScheduledRequest waits;
    waits.request = std::move(request);
    waiting_.push_back(priority, std::move(waits), now);
  }
}

void EngineLoop::end_cancelled_and_late() {
  std::vector<SequenceId> ended;
  for (const auto [sequence, running] : running_) {
    if (cancellations_.must_end(*running.request)) ended.push_back(sequence);
  }
  for (const SequenceId sequence : ended) {
    auto [reason, error] = CancellationWatch::end_of(*running_.find(sequence)->request);
    end(sequence, reason, std::move(error));
  }
  waiting_.keep_if([this](ScheduledRequest& each) {
    if (!cancellations_.must_end(*each.request)) return true;
    auto [reason, error] = CancellationWatch::end_of(*each.request);
    finish(each, reason, std::move(error));
    return false;
  });
}

void EngineLoop::change_plans(const std::function<bool(ActiveRequest&)>& take_plan) {
  waiting_.keep_if([&](ScheduledRequest& each) {
    if (take_plan(*each.request)) each.claim.reset();
    return true;
  });
  std::vector<SequenceId> drained;
  for (const auto [sequence, running] : running_) {
    const bool was_automatic = running.request->plan().automatic;
    if (!take_plan(*running.request)) continue;
    batch_.change_plan(running.in_batch, was_automatic, running.request->plan().automatic);
    if (running.driver.drain() == RequestDriver::State::kDrained) drained.push_back(sequence);
  }
  for (const SequenceId sequence : drained) {
    at_hand_ = sequence;
    ScheduledRequest& running = *running_.find(sequence);
    finish_turn(running, turns_.change_strategy(running, turn_begin_));
  }
  at_hand_ = kNone;
}

void EngineLoop::admit() {
  while (!waiting_.empty()) {
    if (const auto next = admission_.next()) {
      ScheduledRequest admitted = waiting_.pop(next->priority);
      admitted.level = next->level;
      admitted.waited = Clock::now() - next->since;
      start(std::move(admitted));
      continue;
    }
    if (admission_.has_place() && preemption_.waits_for_blocks()) return;
    if (!preemption_.give_way(waiting_.highest_priority())) return;
  }
}

void EngineLoop::start(ScheduledRequest admitted) {
  const SequenceId sequence = at_hand_ = running_.next_sequence();
  ScheduledRequest& running = running_.add(sequence, std::move(admitted));
  running.driver.set_strategy(strategies_.make(running));
  const Status opened = running_.open(running, specs_.spec(running));
  if (!opened.ok()) {
    end(sequence, FinishReason::kError, opened);
    return;
  }
  finish_turn(running, turns_.start(running, turn_begin_));
}

void EngineLoop::handle(WorkResult& result) {
  ScheduledRequest* const running = running_.find(result.sequence);
  if (running == nullptr) return;
  at_hand_ = result.sequence;
  if (result.waits_for_memory) {
    if (!preemption_.make_room(*running)) end(result.sequence, FinishReason::kError, result.status);
    return;
  }
  TurnTimer timer(options_.recorder, result);
  const RequestDriver::State state = turns_.take(*running, result, timer, turn_begin_);
  if (const int64_t gained = running_.count_tokens(*running); gained > 0) {
    waiting_.note_served(running->request->request().priority, gained);
  }
  if (state == RequestDriver::State::kFailed) {
    end(result.sequence, FinishReason::kError, running->driver.error());
    return;
  }
  const bool decodes = running->in_batch.decodes();
  finish_turn(*running, state, timer);
  if (!decodes) return;
  const Clock::time_point turn_end = Clock::now();
  if (!result.entered) {
    batch_.note_turn(result, std::chrono::duration<double>(turn_end - turn_begin_).count());
  }
  turn_begin_ = turn_end;
}

void EngineLoop::finish_turn(const ScheduledRequest& running, RequestDriver::State state,
                             TurnTimer timer) {
  timer.finish();
  if (state == RequestDriver::State::kOver) {
    end(running.sequence, running.request->reason(), Status());
    return;
  }
  events_.note_turn(running.sequence);
}

void EngineLoop::end(SequenceId sequence, FinishReason reason, Status error) {
  preemption_.note_end();
  events_.note_end({running_.remove(sequence), reason, std::move(error)});
}

void EngineLoop::deliver() {
  events_.deliver(running_);
  try {
    strategies_.tell_costs(running_, automatic_.sources());
    automatic_.look(batch_, strategies_.acceptance());
  } catch (const std::bad_alloc&) {
    // Costs and plans stay unchanged.
  }
}

void EngineLoop::drop_at_hand() {
  preemption_.note_end();
  submissions_.waker()->wake();  // some news from other threads may be unhandled
  if (at_hand_ == kAll) {
    while (!running_.empty()) running_.remove((*running_.begin()).id);
  } else if (running_.contains(at_hand_)) {
    running_.remove(at_hand_);
  }
  // The next request may have its turn and its events before a result arrives, and run_turns()
  // drops such requests only after a result.
  events_.drop_unsent(running_);
}

KvLoad EngineLoop::kv_load(Role role) const {
  const KvUsage usage = executor_->kv_usage(role);
  return {usage.used_blocks, usage.total_blocks, kKvBlockTokens};
}

int64_t EngineLoop::kv_blocks_in_use() const {
  return executor_->kv_usage(Role::kTarget).used_blocks +
         executor_->kv_usage(Role::kDraft).used_blocks;
}

}  // namespace forerun
