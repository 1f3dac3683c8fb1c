// When Steps pass the stages of a target that is cut: a discrete-event model of a StageChain, for
// executors that keep time by a profile. A stage works on one Step after another, in the order of
// their arrival; a link carries one Step's hidden rows after another's while the stages continue.
//
// Dropped rows take no time at a stage or on a link that has not begun with them. A stage whose
// Step has lost all its rows goes on with the next Step after its present layer. The first stage
// knows of cancelled rows at once, the others a link's latency later.
//
// Times are nanoseconds of the caller's clock and never go back. One thread.
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

// What strategies are told of the chain (StepCosts::set_stages()).
StepCosts::Stages stage_costs(const StageChain& chain);

class StageTimeline {
 public:
  // `seconds`: how long a Step of a given load takes on all stages together.
  StageTimeline(const StageChain& chain, std::function<double(const StepLoad&)> seconds);

  // A Step reaches the first stage at `now_ns`; Steps are numbered from 1 on. Rows in `dropped` are
  // dropped from the beginning.
  void issue(uint64_t step, const StepLoad& load, std::span<const int32_t> dropped, int64_t now_ns);
  void drop(std::span<const IssuedRow> rows, int64_t now_ns);
  // When the next event happens; nothing where no Step is under way.
  std::optional<int64_t> next_ns() const;
  // Lets all events up to `now_ns` happen, and appends what the executor is told of them.
  void advance(int64_t now_ns, std::vector<PipelineEvent>& events);

 private:
  struct StepAt {
    uint64_t step = 0;
    StepLoad load;
    std::vector<int64_t> dropped_ns;  // when each row was dropped
    std::vector<TraceStage> stages;   // stages that have begun with it
  };
  struct Stage {
    std::deque<uint64_t> inbox;
    uint64_t step = 0;  // 0: idle
    int64_t start_ns = 0, end_ns = 0, layer_ns = 0;
    uint64_t ending = 0;       // the event that ends its Step; earlier kEnds events are void
    int64_t link_free_ns = 0;  // when the link behind it is free again
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
  // How much later than the coordinator a stage knows of cancelled rows.
  int64_t delay_ns(size_t stage) const { return stage == 0 ? 0 : latency_ns_; }
  int32_t live_rows(const StepAt& step, size_t stage, int64_t now_ns) const;
  uint64_t schedule(Event event);
  void begin(size_t stage, int64_t now_ns);
  void end(size_t stage, int64_t now_ns, std::vector<PipelineEvent>& events);

  const StageChain chain_;
  const std::function<double(const StepLoad&)> seconds_;
  const int64_t latency_ns_;
  std::vector<Stage> stages_;
  std::deque<StepAt> steps_;  // Steps under way
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t scheduled_ = 0;  // events scheduled so far
};

}  // namespace forerun
