// How EngineLoop switches running requests to another plan: one that the reader asks for, one that
// suits the load where the engine chooses, or one without the draft model where the draft's rows
// are faulty.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/loop/engine_loop.h"
#include "step/step.h"

namespace forerun {

void EngineLoop::look_at_load() {
  if (options_.automatic == nullptr || options_.costs == nullptr) return;
  const int64_t sequences = batch_costs_.sequences();
  // The measured speed of all requests says nothing about the engine's plan if some requests have
  // strategies of their own.
  if (sequences == 0 || automatic_sequences_ < sequences) return;
  const KvUsage usage = executor_->kv_usage(Role::kTarget);
  const BatchLoad load = {.sequences = static_cast<int32_t>(sequences),
                          .context_tokens = batch_costs_.tokens() / sequences,
                          .free_tokens = kKvBlockTokens * (usage.total_blocks - usage.used_blocks)};
  const std::chrono::duration<double> now = Clock::now().time_since_epoch();
  if (options_.automatic->look(*options_.costs, load,
                               {.tokens = decoded_tokens_, .seconds = now.count()})) {
    load_has_changed_ = true;
  }
}

void EngineLoop::follow_load() {
  if (!std::exchange(load_has_changed_, false)) return;
  change_plans([this](ActiveRequest& request) {
    if (!request.plan().automatic) return false;
    return request.follow(options_.automatic->plan(request.usual_plan()));
  });
}

void EngineLoop::change_plans(const std::function<bool(ActiveRequest&)>& take_plan) {
  waiting_.keep_if([&](Running& each) {
    if (take_plan(*each.request)) each.claim.reset();
    return true;
  });
  std::vector<SequenceId> drained;
  for (const auto [sequence, running] : running_) {
    const bool was_automatic = running.request->plan().automatic;
    if (!take_plan(*running.request)) continue;
    if (running.decodes) automatic_sequences_ += running.request->plan().automatic - was_automatic;
    if (running.driver.drain() == RequestDriver::State::kDrained) drained.push_back(sequence);
  }
  for (const SequenceId sequence : drained) {
    at_hand_ = sequence;
    Running& running = *running_.find(sequence);
    finish_turn(running, start_next_strategy(running));
  }
  at_hand_ = kNone;
}

std::unique_ptr<Strategy> EngineLoop::make_strategy(Running& running) {
  const ActiveRequest& request = *running.request;
  running.costs_version = batch_costs_.version();
  const StrategyParts parts = {
      .shared = shared_acceptance_,
      .costs = batch_costs_.for_newcomer(),
      .record_rounds = request.request().record_rounds || options_.recorder != nullptr};
  return running.draft_is_out ? without_draft_model(request.plan()).make_strategy(parts)
                              : request.plan().make_strategy(parts);
}

RequestDriver::State EngineLoop::start_next_strategy(Running& running) {
  report(running);  // under the former strategy's name
  running.driver.change_strategy(make_strategy(running));
  return start_strategy(running);
}

// The draft's KV is likely to hold NaN, which would make every further row faulty as well.
RequestDriver::State EngineLoop::leave_out_faulty_draft(Running& running, const WorkResult& result,
                                                        RequestDriver::State state) {
  if (result.role != Role::kDraft || running.draft_is_out) return state;
  const auto faulty = std::find_if(result.rows.begin(), result.rows.end(),
                                   [](const RowResult& row) { return !row.status.ok(); });
  if (faulty == result.rows.end()) return state;
  running.draft_is_out = true;
  log_line(LogLevel::kWarning,
           faulty->status.message() + "; the request goes on without the draft model");
  return state == RequestDriver::State::kRunning ? running.driver.drain() : state;
}

}  // namespace forerun
