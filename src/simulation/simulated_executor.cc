#include "simulation/simulated_executor.h"

#include <cmath>
#include <iterator>
#include <string>
#include <utility>

namespace forerun {
namespace {

int64_t to_ns(double seconds) { return std::llround(1e9 * seconds); }

}  // namespace

SimulatedExecutor::SimulatedExecutor(SimulatedExecutorOptions options)
    : options_(std::move(options)) {
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (!options_.profile.has(role)) continue;
    const auto idx = static_cast<size_t>(role);
    RoleState& state = roles_[idx];
    state.runner = std::move(options_.runners[idx]);
    if (state.runner == nullptr) {
      state.runner =
          std::make_unique<SimulatedRunner>(options_.acceptance.get(), options_.kv_blocks[idx]);
    }
    if (role == Role::kTarget && options_.profile.stages) {
      auto pipeline = std::make_unique<SimulatedPipeline>(
          std::move(state.runner), &options_.profile, &now_ns_, options_.host_seconds);
      state.pipeline = pipeline.get();
      state.runner = std::move(pipeline);
    }
    state.worker = std::make_unique<RoleWorker>(
        role, state.runner.get(), StepScheduler(role, options_.budget, options_.costs),
        [this](const StepRecord& record) { occupy(record); }, options_.trace);
    if (state.pipeline == nullptr) continue;
    state.worker->set_pipelined([this, &state](PipelineEvent event) {
      state.worker->handle(std::move(event), state.held);
      std::move(state.held.begin(), state.held.end(), std::back_inserter(finished_));
      state.held.clear();
    });
  }
}

Status SimulatedExecutor::open(SequenceId sequence, const SequenceSpec& spec) {
  if (spec.max_tokens <= 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "max_tokens: found " + std::to_string(spec.max_tokens) + "; accepted: at least 1");
  }
  if (!open_.try_emplace(sequence, openings_ + 1).second) {
    return Status(StatusCode::kInvalidArgument,
                  "sequence " + std::to_string(sequence) + " is open already");
  }
  ++openings_;
  for (RoleState& role : roles_) {
    if (role.worker) role.worker->open(sequence, spec);
  }
  return {};
}

void SimulatedExecutor::submit(WorkItem item) {
  const auto open = open_.find(item.sequence);
  if (open == open_.end()) return;
  RoleState& role = roles_[static_cast<size_t>(item.role)];
  if (role.worker) {
    PendingItem pending;
    pending.item = std::move(item);
    pending.opening = open->second;
    pending.submit_ns = now_ns_;
    role.worker->submit(std::move(pending));
    return;
  }
  if (item.rows.empty()) return;
  finished_.push_back(without_model(item, open->second));
}

std::optional<WorkResult> SimulatedExecutor::next_at_hand() {
  while (!finished_.empty()) {
    FinishedItem item = std::move(finished_.front());
    finished_.pop_front();
    const auto open = open_.find(item.result.sequence);
    // The sequence was closed meanwhile (and perhaps opened again), so the result has no receiver.
    if (open == open_.end() || open->second != item.opening) continue;
    if (item.result.waits_for_memory && item.closings != closings_) continue;  // it tries again
    return std::move(item.result);
  }
  return std::nullopt;
}

// Called when a Step has been answered. Marks its devices busy for as long as the profile says. A
// Step of a target with stages has already passed all of them.
void SimulatedExecutor::occupy(StepRecord record) {
  RoleState& role = roles_[static_cast<size_t>(record.role)];
  record.host_seconds = options_.host_seconds;
  if (role.pipeline == nullptr) {
    record.seconds = options_.profile.costs.seconds(record.role, record.load());
    record.start_ns = now_ns_;
    record.end_ns = now_ns_ + to_ns(record.seconds);
    role.busy = true;
    role.done_ns = record.end_ns + to_ns(record.host_seconds);
  }
  if (options_.on_step) options_.on_step(record);
}

void SimulatedExecutor::issue_steps() {
  RoleState& target = roles_[static_cast<size_t>(Role::kTarget)];
  while (target.worker->may_issue()) target.worker->issue(target.held);
  std::move(target.held.begin(), target.held.end(), std::back_inserter(finished_));
  target.held.clear();
}

bool SimulatedExecutor::start_step(RoleState& role, int64_t held_up) {
  while (role.worker && !role.busy && role.worker->ready()) {
    role.worker->step(role.held, held_up, meanwhile_);
    if (role.busy) return true;
    std::move(role.held.begin(), role.held.end(), std::back_inserter(finished_));
    role.held.clear();
  }
  return false;
}

void SimulatedExecutor::start_steps() {
  auto& [target, draft] = roles_;
  if (target.pipeline != nullptr) {
    start_step(draft);
    issue_steps();
  } else if (options_.profile.separate_devices) {
    start_step(draft);
    start_step(target);
  } else if (!draft.busy && !target.busy) {
    while (const auto role = turns_.next(target.worker.get(), draft.worker.get())) {
      const bool drafts = *role == Role::kDraft;
      const int64_t held_up = drafts && target.worker ? target.worker->decoding_sequences() : 0;
      // Finished results may lead to more work, which belongs to the same Step.
      if (start_step(drafts ? draft : target, held_up) || !finished_.empty()) break;
    }
  }
}

std::optional<WorkResult> SimulatedExecutor::next(std::chrono::microseconds) {
  while (true) {
    if (auto result = next_at_hand()) return result;
    start_steps();
    if (!finished_.empty()) continue;
    RoleState* first = nullptr;
    for (RoleState& role : roles_) {
      if (role.busy && (first == nullptr || role.done_ns < first->done_ns)) first = &role;
    }
    const auto passes = roles_.front().pipeline ? roles_.front().pipeline->next_ns() : std::nullopt;
    if (passes && (first == nullptr || *passes <= first->done_ns)) {
      now_ns_ = *passes;
      roles_.front().pipeline->advance();
      continue;
    }
    if (first == nullptr) return std::nullopt;
    now_ns_ = first->done_ns;
    first->busy = false;
    std::move(first->held.begin(), first->held.end(), std::back_inserter(finished_));
    first->held.clear();
  }
}

void SimulatedExecutor::close(SequenceId sequence) {
  if (open_.erase(sequence) == 0) return;
  ++closings_;
  for (RoleState& role : roles_) {
    if (role.worker) role.worker->close(sequence);
  }
}

KvUsage SimulatedExecutor::kv_usage(Role role) const {
  const auto& worker = roles_[static_cast<size_t>(role)].worker;
  return worker ? worker->usage() : KvUsage{};
}

}  // namespace forerun
