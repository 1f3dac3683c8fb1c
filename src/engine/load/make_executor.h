// Makes the executor that runs Steps on loaded models: decides which models have a thread, how long
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
  StepEmulator* emulator = nullptr;  // null: Steps are not delayed
  // For each role, a source that answers in place of its model, which then reads no prompts
  // (simulation/replayed_runner.h); null: the model answers.
  std::array<const AcceptanceSource*, kNumRoles> answers = {};
  std::function<void(const StepRecord&)> on_step = {};
  bool trace = false;
  const LiveCosts* costs = nullptr;  // as RealExecutorOptions::costs
  StepBudget budget = {};
};

// Makes an executor. The models must outlive it; it changes the KV of their decoders. Only one
// executor may run Steps at a time.
std::unique_ptr<RealExecutor> make_executor(LoadedModels& models, ExecutorOptions options);

// Must be called by the thread that calls the executor's next(). If that thread is a member of a
// team of CPU threads, pins it to its own processor, like the other members. Otherwise the OS
// scheduler would move it to another member's processor whenever other processes are busy, and the
// two would wait for each other.
void pin_executors_caller(const LoadedModels& models);

}  // namespace forerun
