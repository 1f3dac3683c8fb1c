#include "engine/info/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "base/clocks.h"

namespace forerun {
void TraceRecorder::add_step(const StepRecord& record) {
  TraceStep step;
  step.draft = record.role == Role::kDraft;
  step.rows = record.rows;
  step.context_tokens = record.context_tokens;
  step.start_ns = record.start_ns;
  step.end_ns = record.end_ns;
  step.host_cpu_ns = record.host_cpu_ns;
  step.items.assign(record.items.begin(), record.items.end());
  step.stages.assign(record.stages.begin(), record.stages.end());
  const std::lock_guard lock(mutex_);
  if (trace_.steps.size() < capacity_) {
    trace_.steps.push_back(std::move(step));
  } else {
    ++trace_.dropped;
  }
}

void TraceRecorder::add_turn(const TraceTurn& turn) {
  const std::lock_guard lock(mutex_);
  if (trace_.turns.size() < capacity_) {
    trace_.turns.push_back(turn);
  } else {
    ++trace_.dropped;
  }
}

Trace TraceRecorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(trace_, Trace{});
}

TurnTimer::TurnTimer(TraceRecorder* recorder, const WorkResult& result) : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  turn_.request = result.sequence;
  turn_.draft = result.role == Role::kDraft;
  turn_.start_ns = steady_ns();
  turn_.cpu_ns = -thread_cpu_ns();
}

void TurnTimer::note(const StrategyOutput& out) {
  if (recorder_ == nullptr) return;
  turn_.submitted = static_cast<int32_t>(out.work.size());
  turn_.tokens = static_cast<int32_t>(out.tokens.size());
  for (const RoundRecord& round : out.rounds) {
    turn_.verified_rows += static_cast<int32_t>(round.nodes.size());
    turn_.reroot = round.reroot;
    // Skips the root, which counts as accepted.
    for (size_t node = 1; node < round.nodes.size(); ++node) {
      turn_.accepted_nodes += round.nodes[node].accepted ? 1 : 0;
    }
  }
}

void TurnTimer::finish() {
  if (recorder_ == nullptr) return;
  turn_.cpu_ns = std::max<int64_t>(turn_.cpu_ns + thread_cpu_ns() - thread_cpu_read_ns(), 0);
  turn_.end_ns = steady_ns();
  recorder_->add_turn(turn_);
}

}  // namespace forerun
