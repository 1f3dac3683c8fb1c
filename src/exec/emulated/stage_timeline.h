// A timeline of Steps through the stages of a target: a discrete-event model of a StageChain, for
// executors that keep time by a profile. A stage works on one Step at a time, in the order of
// arrival; a link carries the hidden rows of one Step at a time while the stages continue.
//
// Dropped rows take no time at a stage or on a link that has not begun them. If a stage's Step has
// lost all its rows, the stage continues with the next Step after its present layer. The first
// stage learns of cancelled rows at once, the others a link's latency later.
//
// Times are nanoseconds of the caller's clock and never decrease. Only one thread may use an
// object.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "exec/emulated/step_profile.h"
#include "exec/step_runner.h"
#include "step/step_load.h"

namespace forerun {

// Returns the chain's costs for strategies (StepCosts::set_stages()).
StepCosts::Stages stage_costs(const StageChain& chain);

class StageTimeline {
 public:
  // `seconds` returns the time of a load on all stages together.
  StageTimeline(const StageChain& chain, std::function<double(const StepLoad&)> seconds);

  // Lets a Step reach the first stage at `now_ns`; Steps have numbers from 1 on. Rows in `dropped`
  // are dropped from the beginning.
  void issue(uint64_t step, const StepLoad& load, std::span<const int32_t> dropped, int64_t now_ns);
  void drop(std::span<const IssuedRow> rows, int64_t now_ns);
  // Returns the time of the next event; nothing if no Step is in flight.
  std::optional<int64_t> next_ns() const;
  // Processes all events up to `now_ns`, and appends the ones for the executor.
  void advance(int64_t now_ns, std::vector<PipelineEvent>& events);

 private:
  struct StepAt {
    uint64_t step = 0;
    StepLoad load;
    std::vector<int64_t> dropped_ns;  // drop time of each row
    std::vector<TraceStage> stages;   // stages that have begun the Step
  };
  struct Stage {
    std::deque<uint64_t> inbox;
    uint64_t step = 0;  // 0 if idle
    int64_t start_ns = 0, end_ns = 0, layer_ns = 0;
    uint64_t ending = 0;       // the event that ends its Step; earlier kEnds events are invalid
    int64_t link_free_ns = 0;  // end of the link's current transfer
  };
  struct Event {
    int64_t ns = 0;
    uint64_t order = 0;
    enum class Kind : uint8_t { kArrives, kEnds, kReturns } kind = Kind::kArrives;
    size_t stage = 0;
    uint64_t step = 0;
    bool operator>(const Event& other) const {
      return ns != other.ns ? ns > other.ns : order > other.order;
    }
  };

  StepAt& at(uint64_t step) { return steps_[static_cast<size_t>(step - steps_.front().step)]; }
  // Returns how much later than the coordinator a stage learns of cancelled rows.
  int64_t delay_ns(size_t stage) const { return stage == 0 ? 0 : latency_ns_; }
  int32_t live_rows(const StepAt& step, size_t stage, int64_t now_ns) const;
  uint64_t schedule(Event event);
  void begin(size_t stage, int64_t now_ns);
  void end(size_t stage, int64_t now_ns, std::vector<PipelineEvent>& events);

  const StageChain chain_;
  const std::function<double(const StepLoad&)> seconds_;
  const int64_t latency_ns_;
  std::vector<Stage> stages_;
  std::deque<StepAt> steps_;  // Steps in flight
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t scheduled_ = 0;  // number of events scheduled so far
};

}  // namespace forerun
