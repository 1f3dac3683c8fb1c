// Runs work in virtual time, without models and without waiting. The real executor's RoleWorker
// builds, merges and splits Steps, a profile gives their duration, and an AcceptanceSource answers
// them. This predicts a strategy's speed on a machine that is not available, in a small fraction of
// the time of a real run.
//
// It is a discrete-event loop: next() hands out the results of the present moment one by one. When
// none is left, it starts a Step of every role that has work and free devices, and moves the clock
// to the end of the earliest Step. If the profile's roles share devices, one Step runs at a time,
// in the order of RealExecutor (exec/role_turns.h). If the profile cuts the target into stages, the
// target has a pipeline of Steps (simulated_pipeline.h), and the draft runs beside it.
//
// Thread rules: one thread.
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
#include "exec/role/role_worker.h"
#include "exec/role_turns.h"
#include "exec/step_record.h"
#include "simulation/acceptance_source.h"
#include "simulation/simulated_pipeline.h"
#include "simulation/simulated_runner.h"

namespace forerun {

struct SimulatedExecutorOptions {
  StepProfile profile;  // roles without times have no model
  std::shared_ptr<const AcceptanceSource> acceptance;
  // Runners of real models that answer in place of `acceptance`; their devices must outlive the
  // executor. Time still comes from the profile.
  std::array<std::unique_ptr<StepRunner>, kNumRoles> runners;
  std::array<int64_t, kNumRoles> kv_blocks = {1 << 14, 1 << 14};
  // See RealExecutorOptions.
  StepBudget budget;
  const LiveCosts* costs = nullptr;
  // Seconds that the host adds to every Step, on top of the profile's time.
  double host_seconds = 0.0;
  // See RealExecutorOptions. Records have virtual times and this thread's real processor time.
  std::function<void(const StepRecord&)> on_step;
  bool trace = false;
};

class SimulatedExecutor : public Executor {
 public:
  explicit SimulatedExecutor(SimulatedExecutorOptions options);

  // Returns the time of the virtual clock; 0 at construction.
  int64_t now_ns() const { return now_ns_; }
  double now_seconds() const { return 1e-9 * static_cast<double>(now_ns_); }

  Status open(SequenceId sequence, const SequenceSpec& spec) override;
  // Fails an item for a role without a model (kInternal).
  void submit(WorkItem item) override;
  // Never waits; ignores `timeout`.
  std::optional<WorkResult> next(std::chrono::microseconds timeout) override;
  std::optional<WorkResult> next_at_hand() override;
  void set_meanwhile(Meanwhile meanwhile) override { meanwhile_ = std::move(meanwhile); }
  // Frees the sequence's blocks at once. A running Step does not end earlier.
  void close(SequenceId sequence) override;
  KvUsage kv_usage(Role role) const override;

 private:
  struct RoleState {
    std::unique_ptr<StepRunner> runner;
    SimulatedPipeline* pipeline = nullptr;  // the runner, if the target has stages
    std::unique_ptr<RoleWorker> worker;
    bool busy = false;
    int64_t done_ns = 0;
    std::vector<FinishedItem> held;  // results of the running Step
  };

  void start_steps();
  void issue_steps();
  // Returns whether it started a Step. Work that needs no Step completes at once.
  bool start_step(RoleState& role, int64_t held_up = 0);
  void occupy(StepRecord record);

  SimulatedExecutorOptions options_;
  std::array<RoleState, kNumRoles> roles_;
  std::unordered_map<SequenceId, uint64_t> open_;  // number of the opening of each open sequence
  uint64_t closings_ = 0;                          // number of sequences closed so far
  RoleTurns turns_;                                // schedules roles that share devices
  uint64_t openings_ = 0;                          // number of sequences opened so far
  std::deque<FinishedItem> finished_;
  Meanwhile meanwhile_;
  int64_t now_ns_ = 0;
};

}  // namespace forerun
