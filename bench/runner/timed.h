// Wrappers that measure this thread's time in a runner or a strategy.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/clocks.h"
#include "exec/forwarding_runner.h"
#include "strategies/strategy.h"

namespace forerun::bench {

// A runner that counts this thread's time in its model.
class TimedRunner : public ForwardingRunner<StepRunner> {
 public:
  TimedRunner(std::unique_ptr<StepRunner> runner, int64_t* ns)
      : ForwardingRunner(std::move(runner)), ns_(*ns) {}
  Status run(const Step& step, std::span<RowTask> tasks, std::span<RejectionTask> rejections,
             const Meanwhile& meanwhile) override {
    const int64_t start_ns = thread_cpu_ns();
    Status status = inner().run(step, tasks, rejections, meanwhile);
    ns_ += thread_cpu_ns() - start_ns;
    return status;
  }
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    const int64_t start_ns = thread_cpu_ns();
    Status status = inner().move_kv(sequence, moves);
    ns_ += thread_cpu_ns() - start_ns;
    return status;
  }

 private:
  int64_t& ns_;
};

// A strategy that counts this thread's time in it, by the role of the result that it handles.
class TimedStrategy : public Strategy {
 public:
  // `ns`: one entry per role.
  TimedStrategy(std::unique_ptr<Strategy> strategy, int64_t* ns)
      : strategy_(std::move(strategy)), ns_(ns) {}
  void start(const RequestView& request, StrategyOutput& out) override {
    strategy_->start(request, out);
  }
  void on_result(const WorkResult& result, StrategyOutput& out) override {
    const int64_t start_ns = thread_cpu_ns();
    strategy_->on_result(result, out);
    ns_[static_cast<size_t>(result.role)] += thread_cpu_ns() - start_ns;
  }
  void on_costs(const CostTable& costs) override { strategy_->on_costs(costs); }
  void prepare() override { strategy_->prepare(); }
  StrategyStats stats() const override { return strategy_->stats(); }
  const char* name() const override { return strategy_->name(); }

 private:
  const std::unique_ptr<Strategy> strategy_;
  int64_t* const ns_;
};

}  // namespace forerun::bench
