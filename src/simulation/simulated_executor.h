// Runs work in virtual time: no model, no waiting. Steps are built, merged and split by the real
// executor's RoleWorker, last what a profile says, and are answered by an AcceptanceSource; so a
// strategy's speed on a machine that is not here comes out in a small part of the time it would
// take.
//
// A discrete-event loop: next() hands out results of the present moment one by one; when none is
// left it starts a Step of every role whose devices are free and has work, and moves the clock to
// the end of the earliest one. Where a profile's roles share devices, one Step runs at a time, in
// RealExecutor's turns (exec/role_turns.h). A target that the profile cuts into stages has a
// pipeline of Steps (simulated_pipeline.h), beside the draft.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/emulated/step_profile.h"
#include "exec/executor.h"
#include "exec/role_turns.h"
#include "exec/role_worker.h"
#include "exec/step_record.h"
#include "simulation/acceptance_source.h"
#include "simulation/simulated_pipeline.h"
#include "simulation/simulated_runner.h"

namespace forerun {

struct SimulatedExecutorOptions {
  StepProfile profile;  // roles without times have no model
  std::shared_ptr<const AcceptanceSource> acceptance;
  // Who answers in place of `acceptance`: models, whose devices must outlive the executor. Time is
  // the profile's all the same.
  std::array<std::unique_ptr<StepRunner>, kNumRoles> runners;
  std::array<int64_t, kNumRoles> kv_blocks = {1 << 14, 1 << 14};
  // As RealExecutorOptions'.
  StepBudget budget;
  const LiveCosts* costs = nullptr;
  double host_seconds = 0.0;  // of every Step, on top of the profile's time
  // As RealExecutorOptions', with virtual times and this thread's real CPU time.
  std::function<void(const StepRecord&)> on_step;
  bool trace = false;
};

class SimulatedExecutor : public Executor {
 public:
  explicit SimulatedExecutor(SimulatedExecutorOptions options);

  // Since construction.
  int64_t now_ns() const { return now_ns_; }
  double now_seconds() const { return 1e-9 * static_cast<double>(now_ns_); }

  Status open(SequenceId sequence, const SequenceSpec& spec) override;
  // An item for a role without a model fails (kInternal).
  void submit(WorkItem item) override;
  // Never waits: `timeout` is not looked at.
  std::optional<WorkResult> next(std::chrono::microseconds timeout) override;
  std::optional<WorkResult> next_at_hand() override;
  void set_meanwhile(Meanwhile meanwhile) override { meanwhile_ = std::move(meanwhile); }
  // Blocks return at once; the Step in flight still lasts as long as it does.
  void close(SequenceId sequence) override;
  KvUsage kv_usage(Role role) const override;

 private:
  struct RoleState {
    std::unique_ptr<StepRunner> runner;
    SimulatedPipeline* pipeline = nullptr;  // the runner, where it has stages
    std::unique_ptr<RoleWorker> worker;
    bool busy = false;
    int64_t done_ns = 0;
    std::vector<FinishedItem> held;  // results of the Step in flight
  };

  void start_steps();
  void issue_steps();
  // True if it started a Step; work that needs none is done at once.
  bool start_step(RoleState& role, int64_t held_up = 0);
  void occupy(StepRecord record);

  SimulatedExecutorOptions options_;
  std::array<RoleState, kNumRoles> roles_;
  std::unordered_map<SequenceId, uint64_t> open_;  // and which opening it is
  uint64_t closings_ = 0;                          // so far
  RoleTurns turns_;                                // where they share devices
  uint64_t openings_ = 0;                          // so far
  std::deque<FinishedItem> finished_;
  Meanwhile meanwhile_;
  int64_t now_ns_ = 0;
};

}  // namespace forerun
