#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "step/step.h"

namespace forerun {
namespace {

// How long the loop waits for a result before it looks at submissions and cancellations again.
constexpr std::chrono::microseconds kPatience{2000};

int64_t blocks_of(size_t tokens) {
  return (static_cast<int64_t>(tokens) + kKvBlockTokens - 1) / kKvBlockTokens;
}

}  // namespace

void LoopWaker::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  condition_.notify_one();
}

void LoopWaker::wait() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return woken_; });
  woken_ = false;
}

EngineLoop::EngineLoop(Options options, std::unique_ptr<Executor> executor, CostSource costs)
    : options_(options),
      executor_(std::move(executor)),
      costs_(std::move(costs)),
      shared_acceptance_(std::make_shared<SharedAcceptance>()),
      waker_(std::make_shared<LoopWaker>()) {
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
  while (true) {
    if (running_.empty() && waiting_.empty()) waker_->wait();
    {
      std::lock_guard lock(mutex_);
      if (stopping_) break;
    }
    take_submissions();
    end_cancelled_and_late();
    admit();
    if (std::optional<WorkResult> result = executor_->next(kPatience)) handle(*result);
  }
  take_submissions();
  while (!running_.empty()) {
    end(running_.begin()->first, FinishReason::kCancelled, Status());
  }
  for (Running& waiting : waiting_) {
    waiting.request->finish(FinishReason::kCancelled, Status(), waiting.driver.stats(), "none");
  }
}

void EngineLoop::take_submissions() {
  std::lock_guard lock(mutex_);
  while (!submitted_.empty()) {
    Running running;
    running.request = std::move(submitted_.front());
    submitted_.pop_front();
    waiting_.push_back(std::move(running));
  }
}

void EngineLoop::end_cancelled_and_late() {
  const auto now = Clock::now();
  const auto over = [&](ActiveRequest& request) {
    return request.stream().cancelled() || (request.deadline() && *request.deadline() < now);
  };
  const auto status_of = [&](ActiveRequest& request) {
    return request.stream().cancelled()
               ? Status()
               : Status(StatusCode::kDeadlineExceeded,
                        "the request's deadline of " +
                            std::to_string(request.request().deadline.count()) + " ms has passed");
  };
  std::vector<SequenceId> ended;
  for (auto& [sequence, running] : running_) {
    if (over(*running.request)) ended.push_back(sequence);
  }
  for (SequenceId sequence : ended) {
    const Status status = status_of(*running_.at(sequence).request);
    end(sequence, status.ok() ? FinishReason::kCancelled : FinishReason::kError, status);
  }
  for (Running& waiting : waiting_) {
    if (!over(*waiting.request)) continue;
    const Status status = status_of(*waiting.request);
    waiting.request->finish(status.ok() ? FinishReason::kCancelled : FinishReason::kError, status,
                            waiting.driver.stats(), "none");
    waiting.request.reset();
  }
  std::erase_if(waiting_, [](const Running& waiting) { return waiting.request == nullptr; });
}

bool EngineLoop::has_room_for(const ActiveRequest& request) const {
  if (running_.empty()) return true;  // as much room as there will ever be
  // Its tokens, and one block more for it and for each that runs: without that room to grow, what
  // is admitted is set aside again before it has done much.
  const int64_t blocks =
      blocks_of(request.tokens().size()) + 1 + static_cast<int64_t>(running_.size());
  for (Role role : {Role::kTarget, Role::kDraft}) {
    if (executor_->kv_usage(role).total_blocks > 0 && free_blocks(role) < blocks) return false;
  }
  return true;
}

// What a role is reading is counted as promised until all of it has been read, though some of it is
// in use already: beside a prompt that takes more than half of the room others wait until it has
// been read, rather than too many coming in at once.
int64_t EngineLoop::free_blocks(Role role) const {
  const KvUsage usage = executor_->kv_usage(role);
  int64_t blocks = usage.total_blocks - usage.used_blocks;
  for (const auto& [sequence, running] : running_) {
    blocks -= running.promised_blocks[static_cast<size_t>(role)];
  }
  return blocks;
}

int64_t EngineLoop::blocks_to_take(const ActiveRequest& request) const {
  const std::vector<TokenId>& tokens = request.tokens();
  int64_t shared = 0;
  for (const auto& [sequence, running] : running_) {
    if (!shares_prefix(request) || !shares_prefix(*running.request)) continue;
    const std::vector<TokenId>& other = running.request->tokens();
    const auto end = std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end()).first;
    shared = std::max<int64_t>(shared, (end - tokens.begin()) / kKvBlockTokens);
  }
  return blocks_of(tokens.size()) - shared;
}

void EngineLoop::admit() {
  if (memory_is_short_ && !running_.empty()) return;
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < options_.max_active &&
         has_room_for(*waiting_.front().request)) {
    Running running = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(running));
  }
}

void EngineLoop::start(Running running) {
  ActiveRequest& request = *running.request;
  running.sequence = next_sequence_++;
  running.driver.set_strategy(request.plan().make_strategy(
      {.shared = shared_acceptance_,
       .costs = costs_(),
       .record_rounds = request.request().record_rounds || options_.recorder != nullptr}));

  SequenceSpec spec;
  spec.sampling = request.request().sampling;
  spec.prompt_tokens = request.prompt_size();
  spec.max_tokens = request.max_tokens();
  spec.shared_noise = request.plan().shared_noise;
  spec.share_prefix = shares_prefix(request);
  running.promised_blocks.fill(blocks_to_take(request));
  const SequenceId sequence = running.sequence;
  const Status opened = executor_->open(sequence, spec);
  Running& placed = running_.emplace(sequence, std::move(running)).first->second;
  if (!opened.ok()) {
    end(sequence, FinishReason::kError, opened);
    return;
  }
  const auto accept = [&](StrategyOutput& out) { return placed.request->accept(out); };
  const auto submit = [&](WorkItem item) { executor_->submit(std::move(item)); };
  placed.closings = closings_;
  finish_turn(placed, placed.driver.start({.sequence = sequence,
                                           .tokens = placed.request->tokens(),
                                           .prompt_tokens = spec.prompt_tokens,
                                           .max_tokens = spec.max_tokens,
                                           .sampling = spec.sampling},
                                          accept, submit));
}

void EngineLoop::handle(const WorkResult& result) {
  const auto found = running_.find(result.sequence);
  if (found == running_.end()) return;
  Running& running = found->second;
  TurnTimer timer(options_.recorder, result);
  const auto accept = [&](StrategyOutput& out) {
    timer.note(out);
    running.request->note(result);
    running.promised_blocks[static_cast<size_t>(result.role)] = 0;
    running.closings = closings_;
    if (!running.request->request().record_rounds) out.rounds.clear();  // made for the trace
    return running.request->accept(out);
  };
  const auto submit = [&](WorkItem item) { executor_->submit(std::move(item)); };
  const RequestDriver::State state = running.driver.on_result(result, accept, submit);
  if (state == RequestDriver::State::kFailed) {
    handle_failure(running, result.status);
  } else {
    finish_turn(running, state, timer);
  }
}

void EngineLoop::finish_turn(Running& running, RequestDriver::State state, TurnTimer timer) {
  timer.finish();
  if (state == RequestDriver::State::kOver) {
    end(running.sequence, running.request->reason(), Status());
    return;
  }
  // Nobody's next work waits for the reader to be woken.
  running.request->send();
}

void EngineLoop::handle_failure(Running& running, const Status& status) {
  const SequenceId sequence = running.sequence;
  // Who held the memory may have left since the work that failed was submitted: another failure of
  // the same Step, a request that has ended.
  const bool others_held_memory = running_.size() > 1 || running.closings != closings_;
  const bool can_wait = status.code() == StatusCode::kResourceExhausted && others_held_memory;
  if (!can_wait) {
    end(sequence, FinishReason::kError, status);
    return;
  }
  // Preemption by recompute: the request's whole state is its tokens; it starts again from them
  // once others have given blocks back.
  memory_is_short_ = true;
  close(sequence);
  Running preempted = std::move(running);
  running_.erase(sequence);
  preempted.driver.set_strategy(nullptr);
  preempted.request->note_preemption();
  waiting_.push_front(std::move(preempted));
}

void EngineLoop::close(SequenceId sequence) {
  ++closings_;
  executor_->close(sequence);
}

void EngineLoop::end(SequenceId sequence, FinishReason reason, Status error) {
  const auto found = running_.find(sequence);
  Running running = std::move(found->second);
  running_.erase(found);
  memory_is_short_ = false;
  close(sequence);
  running.request->finish(reason, std::move(error), running.driver.stats(),
                          running.driver.strategy_name());
}

int64_t EngineLoop::kv_blocks_in_use() const {
  return executor_->kv_usage(Role::kTarget).used_blocks +
         executor_->kv_usage(Role::kDraft).used_blocks;
}

}  // namespace forerun
