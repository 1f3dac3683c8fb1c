// Makes the executor that runs Steps on loaded models: which of them have a thread, how long
// threads poll, and which runners emulate a machine or replay answers.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "engine/load/loaded_models.h"
#include "exec/emulated/step_emulator.h"
#include "exec/live_costs.h"
#include "exec/real_executor.h"
#include "simulation/acceptance_source.h"
#include "step/types.h"

namespace forerun {

struct ExecutorOptions {
  StepEmulator* emulator = nullptr;  // null: Steps last as long as they do
  // For each role, what answers in place of its model, which then reads no prompts
  // (simulation/replayed_runner.h); null: the model answers.
  std::array<const AcceptanceSource*, kNumRoles> answers = {};
  std::function<void(const StepRecord&)> on_step = {};
  bool trace = false;
  const LiveCosts* costs = nullptr;  // as RealExecutorOptions::costs
  StepBudget budget = {};
};

// The models must outlive the executor, whose Steps change the KV of their decoders. Only one
// executor may run Steps at a time.
std::unique_ptr<RealExecutor> make_executor(LoadedModels& models, ExecutorOptions options);

// Called by the thread that calls the executor's next(). Where that thread is a member of a team of
// CPU threads, it is pinned to its own processor, as the other members are. If it were not, the
// kernel's scheduler would put it on another member's processor as soon as other processes are
// busy, and the two would wait for each other.
void pin_executors_caller(const LoadedModels& models);

}  // namespace forerun
