#include "engine/loop/engine_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "device/cpu/short_slices.h"
#include "step/step.h"

namespace forerun {
namespace {

// Both roles may have a Step in flight, and a turn follows each.
constexpr int32_t kTurnsForBlocks = 4;
// How long the loop waits for a result before it looks at submissions and cancellations again.
constexpr std::chrono::microseconds kTimeout{2000};
// How often the loop looks for requests whose completion queue has been destroyed: that cancels the
// requests without waking the loop.
constexpr std::chrono::milliseconds kLooks{100};

// KV blocks that the request takes for its view beside its text.
int64_t view_blocks_of(const ActiveRequest& request) {
  const KvViewSpec& view = request.plan().view;
  if (view.kind == nullptr) return 0;
  const auto& head_dim = request.plan().models.head_dim;
  return view.kind->own_blocks(view.budget,
                               {.tokens = static_cast<int32_t>(request.tokens().size()),
                                .head_dim = *std::min_element(head_dim.begin(), head_dim.end())});
}

}  // namespace

EngineLoop::EngineLoop(Options options, std::unique_ptr<Executor> executor)
    : options_(std::move(options)),
      executor_(std::move(executor)),
      shared_acceptance_(std::make_shared<SharedAcceptance>()),
      waker_(std::make_shared<LoopWaker>()),
      waiting_(options_.priority_ageing),
      admission_(executor_.get(), options_.draft_keeps_all),
      batch_costs_(options_.costs, options_.drafts_sequentially) {
  executor_->set_meanwhile([this] { deliver(); });
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  waker_->wake();
  thread_.join();
}

void EngineLoop::submit(std::unique_ptr<ActiveRequest> request) {
  {
    std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(request));
  }
  waker_->wake();
}

void EngineLoop::run() {
  ask_for_short_slices();  // the thread may be a member of a device's team
  if (options_.on_thread_start) options_.on_thread_start();
  while (true) {
    if (running_.empty() && waiting_.empty()) {
      deliver();
      waker_->wait();
    }
    {
      std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    try {
      at_hand_ = kNone;
      look_outside();
      follow_load();
      admit();
      at_hand_ = kAll;
      std::optional<WorkResult> result = executor_->next(kTimeout);
      if (!result) deliver();
      drop_unsent();
      turn_begin_ = Clock::now();
      if (result && turns_to_wait_ > 0) --turns_to_wait_;
      // Handles all results of a Step before looking at anything else.
      for (; result; result = executor_->next_at_hand()) handle(*result);
    } catch (const std::bad_alloc&) {
      drop_at_hand();
    }
  }
  try {
    at_hand_ = kAll;
    take_submissions();
    while (!running_.empty()) {
      end((*running_.begin()).id, FinishReason::kCancelled, Status());
    }
    waiting_.keep_if([](Running& each) {
      each.request->finish(FinishReason::kCancelled, Status(), each.driver.stats(), "none");
      return false;
    });
  } catch (const std::bad_alloc&) {
    drop_at_hand();
  }
  deliver();
}

void EngineLoop::report_running() {
  if (options_.load != nullptr) options_.load->set_running(running_.size());
}

void EngineLoop::look_outside() {
  const bool news = waker_->take_news();
  if (news) take_submissions();
  const auto now = Clock::now();
  if (!news && now < next_look_ && now < next_deadline_) return;
  next_look_ = now + kLooks;
  end_cancelled_and_late();
  if (!news) return;
  change_plans([](ActiveRequest& request) { return request.take_wanted_plan(); });
}

void EngineLoop::take_submissions() {
  std::deque<std::unique_ptr<ActiveRequest>> submitted;
  {
    std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
  }
  const Clock::time_point now = Clock::now();
  for (std::unique_ptr<ActiveRequest>& request : submitted) {
    if (request->deadline()) next_deadline_ = std::min(next_deadline_, *request->deadline());
    Running running;
    running.request = std::move(request);
    if (options_.automatic != nullptr && running.request->plan().automatic) {
      running.request->begin_with(options_.automatic->plan(running.request->usual_plan()));
    }
    const int32_t priority = running.request->request().priority;
    waiting_.push_back(priority, std::move(running), now);
  }
}

void EngineLoop::end_cancelled_and_late() {
  const auto now = Clock::now();
  next_deadline_ = Clock::time_point::max();
  const auto over = [&](ActiveRequest& request) {
    if (request.stream().cancelled()) return true;
    if (!request.deadline()) return false;
    if (*request.deadline() < now) return true;
    next_deadline_ = std::min(next_deadline_, *request.deadline());
    return false;
  };
  const auto status_of = [&](ActiveRequest& request) {
    return request.stream().cancelled()
               ? Status()
               : Status(StatusCode::kDeadlineExceeded,
                        "the request's deadline of " +
                            std::to_string(request.request().deadline.count()) + " ms has passed");
  };
  std::vector<SequenceId> ended;
  for (const auto [sequence, running] : running_) {
    if (over(*running.request)) ended.push_back(sequence);
  }
  for (SequenceId sequence : ended) {
    const Status status = status_of(*running_.find(sequence)->request);
    end(sequence, status.ok() ? FinishReason::kCancelled : FinishReason::kError, status);
  }
  waiting_.keep_if([&](Running& each) {
    if (!over(*each.request)) return true;
    const Status status = status_of(*each.request);
    each.request->finish(status.ok() ? FinishReason::kCancelled : FinishReason::kError, status,
                         each.driver.stats(), "none");
    return false;
  });
}

bool EngineLoop::has_room(Running& waits, int32_t priority) {
  // While memory is short, a newcomer would be the first to be preempted again, unless it outranks
  // a running request.
  if (memory_is_short_ && !running_.empty() && !outranks_one(priority)) return false;
  const ActiveRequest& request = *waits.request;
  if (!waits.claim) {
    waits.claim.emplace(request.tokens(), shares_prefix(request),
                        salts_.number(request.request().cache_salt), view_blocks_of(request));
  }
  return admission_.has_room(*waits.claim, static_cast<int64_t>(running_.size()));
}

std::optional<WaitingRequests<EngineLoop::Running>::Next> EngineLoop::next_that_fits() {
  if (static_cast<int32_t>(running_.size()) >= options_.max_active) return std::nullopt;
  const Clock::time_point now = Clock::now();
  auto next = waiting_.next(now);
  if (has_room(*next.entry, next.priority)) return next;
  if (next.is_owed) {
    // A request that is owed its turn overtakes others only where it can start at once; where it
    // cannot, it does not hold them up.
    next = waiting_.next_by_level(now);
    if (has_room(*next.entry, next.priority)) return next;
  }
  if (!memory_is_short_) return std::nullopt;
  // A request that is first by its age waits until a running one ends; a more urgent one may take
  // the place of a running one.
  next = waiting_.most_urgent(now);
  if (has_room(*next.entry, next.priority)) return next;
  return std::nullopt;
}

void EngineLoop::admit() {
  while (!waiting_.empty()) {
    if (const auto next = next_that_fits()) {
      Running running = waiting_.pop(next->priority);
      running.level = next->level;
      running.waited = Clock::now() - next->since;
      start(std::move(running));
      continue;
    }
    const bool has_place = static_cast<int32_t>(running_.size()) < options_.max_active;
    if (has_place && turns_to_wait_ > 0) return;
    if (!give_way(waiting_.highest_priority())) return;
    turns_to_wait_ = kTurnsForBlocks;
  }
}

void EngineLoop::start(Running waited) {
  const SequenceId sequence = at_hand_ = next_sequence_++;
  Running& running = running_.insert(sequence, std::make_unique<Running>(std::move(waited)));
  report_running();
  batch_costs_.admit();
  ActiveRequest& request = *running.request;
  running.sequence = sequence;
  running.driver.set_strategy(make_strategy(running));

  SequenceSpec spec;
  spec.sampling = request.sampling();
  if (!request.wants_scores()) spec.sampling.prompt_logprobs = -1;
  spec.prompt_tokens = request.prompt_size();
  spec.max_tokens = request.max_tokens();
  spec.share_prefix = shares_prefix(request);
  spec.prefix_salt = salts_.number(request.request().cache_salt);
  spec.priority = running.level;
  spec.constraint = request.constraint();
  admission_.admit(*running.claim, running.reservation);
  running.claim.reset();
  running.tokens_at_start = static_cast<int64_t>(request.tokens().size());
  const Status opened = executor_->open(sequence, spec);
  if (!opened.ok()) {
    end(sequence, FinishReason::kError, opened);
    return;
  }
  finish_turn(running, start_strategy(running));
}

RequestDriver::State EngineLoop::start_strategy(Running& running) {
  ActiveRequest& request = *running.request;
  return running.driver.start(
      {.sequence = running.sequence,
       .tokens = request.tokens(),
       .prompt_tokens = request.prompt_size(),
       .max_tokens = request.max_tokens(),
       .sampling = request.sampling()},
      [&](StrategyOutput& out) { return request.accept(out, turn_begin_); },
      [&](WorkItem item) { submit(running, std::move(item)); });
}

void EngineLoop::submit(const Running& running, WorkItem item) {
  item.shared_noise = running.request->plan().shared_noise;
  executor_->submit(std::move(item));
}

void EngineLoop::handle(WorkResult& result) {
  Running* const found = running_.find(result.sequence);
  if (found == nullptr) return;
  at_hand_ = result.sequence;
  Running& running = *found;
  if (result.waits_for_memory) {
    make_room(running, result.status);
    return;
  }
  if (result.role == Role::kDraft && result.status.code() == StatusCode::kInternal &&
      options_.load != nullptr) {
    options_.load->note_draft_fault();
  }
  TurnTimer timer(options_.recorder, result);
  const bool goes_on =
      running.driver.state() == RequestDriver::State::kRunning && !running.draft_is_out;
  const auto accept = [&](StrategyOutput& out) {
    timer.note(out);
    if (goes_on && options_.automatic != nullptr && !out.tokens.empty()) {
      options_.automatic->observe(running.request->plan(),
                                  static_cast<int32_t>(result.rows.size()) - 1,
                                  static_cast<int32_t>(out.tokens.size()) - 1);
    }
    if (!result.entered) {
      running.request->note(result, options_.load);
      admission_.note_read(running.reservation, result.role);
    }
    if (!running.request->request().record_rounds) out.rounds.clear();  // made for the trace
    return running.request->accept(out, turn_begin_);
  };
  RequestDriver::State state = running.driver.on_result(
      result, accept, [&](WorkItem item) { submit(running, std::move(item)); });
  state = leave_out_faulty_draft(running, result, state);
  if (state == RequestDriver::State::kDrained) state = start_next_strategy(running);
  if (state == RequestDriver::State::kFailed) {
    count_in_batch(running);
    end(running.sequence, FinishReason::kError, running.driver.error());
    return;
  }
  count_in_batch(running);
  const bool decodes = running.decodes;
  finish_turn(running, state, timer);
  if (decodes) {
    const Clock::time_point turn_end = Clock::now();
    if (!result.entered) {
      batch_costs_.note_turn(result.role, result.rows.size(),
                             std::chrono::duration<double>(turn_end - turn_begin_).count());
      batch_costs_.note_step(result);
    }
    turn_begin_ = turn_end;
  }
}

void EngineLoop::count_in_batch(Running& running) {
  const auto tokens = static_cast<int64_t>(running.request->tokens().size());
  if (!running.decodes) {
    if (tokens == running.tokens_at_start) return;
    running.decodes = true;
    batch_costs_.join(tokens);
    automatic_sequences_ += running.request->plan().automatic;
  } else {
    batch_costs_.grow(tokens - running.tokens_counted);
    decoded_tokens_ += tokens - running.tokens_counted;
  }
  if (tokens > running.tokens_counted) {
    running.futile_preemptions = 0;
    const int64_t before = std::max(running.tokens_counted, running.tokens_at_start);
    waiting_.note_served(running.request->request().priority, tokens - before);
  }
  running.tokens_counted = tokens;
}

void EngineLoop::finish_turn(Running& running, RequestDriver::State state, TurnTimer timer) {
  timer.finish();
  if (state == RequestDriver::State::kOver) {
    end(running.sequence, running.request->reason(), Status());
    return;
  }
  turned_.push_back(running.sequence);
  if (unsent_.capacity() < turned_.capacity()) unsent_.reserve(turned_.capacity());
}

void EngineLoop::deliver() {
  for (const SequenceId sequence : turned_) {
    Running* const running = running_.find(sequence);
    if (running == nullptr) continue;
    try {
      report(*running);
      running->request->send();
      running->driver.prepare();
    } catch (const std::bad_alloc&) {
      unsent_.push_back(sequence);
    }
  }
  turned_.clear();
  for (Ended& ended : ended_) {
    try {
      report(ended.running);
      ended.running.request->finish(ended.reason, std::move(ended.error),
                                    ended.running.driver.stats(),
                                    ended.running.driver.strategy_name());
    } catch (const std::bad_alloc&) {
      // The request's destructor tells its reader.
    }
  }
  ended_.clear();
  try {
    tell_costs();
    look_at_load();
  } catch (const std::bad_alloc&) {
    // Costs and plans stay as they were.
  }
}

void EngineLoop::tell_costs() {
  batch_costs_.refresh();
  if (batch_costs_.version() == told_version_) return;
  for (const auto [sequence, running] : running_) {
    if (running.costs_version == batch_costs_.version()) continue;
    running.costs_version = batch_costs_.version();
    running.driver.on_costs(batch_costs_.table());
  }
  told_version_ = batch_costs_.version();
}

void EngineLoop::report(Running& running) const {
  if (options_.load == nullptr) return;
  running.request->report(*options_.load, running.driver.strategy_name(), running.driver.stats());
}

EngineLoop::Running EngineLoop::remove(SequenceId sequence) {
  Running running = std::move(*running_.take(sequence));
  admission_.release(running.reservation);
  if (running.decodes) {
    batch_costs_.leave(running.tokens_counted);
    automatic_sequences_ -= running.request->plan().automatic;
  }
  batch_costs_.retire();
  running.decodes = false;
  running.costs_version = 0;
  close(sequence);
  report_running();
  return running;
}

void EngineLoop::end(SequenceId sequence, FinishReason reason, Status error) {
  memory_is_short_ = false;
  ended_.push_back({remove(sequence), reason, std::move(error)});
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
