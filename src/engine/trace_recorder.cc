#include "engine/trace_recorder.h"

#include <chrono>
#include <ctime>
#include <utility>

namespace forerun {
namespace {

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void TraceRecorder::add_step(const StepRecord& record) {
  TraceStep step;
  step.draft = record.role == Role::kDraft;
  step.rows = record.rows;
  step.context_tokens = record.context_tokens;
  step.start_ns = record.start_ns;
  step.end_ns = record.end_ns;
  step.host_ns = record.host_cpu_ns;
  step.items.assign(record.items.begin(), record.items.end());
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
  turn_.start_ns = now_ns();
  turn_.cpu_ns = -cpu_ns();
}

void TurnTimer::note(const StrategyOutput& out) {
  if (recorder_ == nullptr) return;
  turn_.submitted = static_cast<int32_t>(out.work.size());
  turn_.tokens = static_cast<int32_t>(out.tokens.size());
  for (const RoundRecord& round : out.rounds) {
    turn_.verified_rows += static_cast<int32_t>(round.nodes.size());
    turn_.reroot = round.reroot;
    // The root counts as accepted.
    for (size_t node = 1; node < round.nodes.size(); ++node) {
      turn_.accepted_nodes += round.nodes[node].accepted ? 1 : 0;
    }
  }
}

void TurnTimer::finish() {
  if (recorder_ == nullptr) return;
  turn_.cpu_ns += cpu_ns();
  turn_.end_ns = now_ns();
  recorder_->add_turn(turn_);
}

}  // namespace forerun
