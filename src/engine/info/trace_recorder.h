// Collects the records of Steps and turns from executors and the loop, for Engine::take_trace().
// May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "exec/step_record.h"
#include "forerun/trace.h"
#include "step/work.h"
#include "strategies/strategy.h"

namespace forerun {

class TraceRecorder {
 public:
  // Keeps at most `capacity` Steps and as many turns; counts the rest as dropped.
  explicit TraceRecorder(size_t capacity = size_t{1} << 19) : capacity_(capacity) {}

  void add_step(const StepRecord& record);
  void add_turn(const TraceTurn& turn);
  // Returns the records since the last call.
  Trace take();

 private:
  const size_t capacity_;
  std::mutex mutex_;
  Trace trace_;
};

// Times one turn of the loop, from construction to finish(); does nothing without a recorder.
class TurnTimer {
 public:
  TurnTimer() = default;
  TurnTimer(TraceRecorder* recorder, const WorkResult& result);
  // Notes the strategy's output before it is passed on.
  void note(const StrategyOutput& out);
  void finish();

 private:
  TraceRecorder* recorder_ = nullptr;
  TraceTurn turn_;
};

}  // namespace forerun
