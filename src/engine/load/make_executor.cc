#include "engine/load/make_executor.h"

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "device/cpu/team.h"
#include "engine/load/make_runner.h"
#include "simulation/replayed_runner.h"

namespace forerun {
namespace {

// The time that a thread polls before it sleeps, for concurrent models on GPUs: longer than a draft
// Step. Waking sleeping threads took 35 us of every draft Step of half a millisecond.
constexpr std::chrono::microseconds kSpin{1000};
// Three threads poll, and one more per GPU waits for that GPU.
constexpr size_t kCoresToSpin = 12;

// Returns the role's runner, wrapped to replay answers or to emulate a machine if the options ask
// for it.
std::unique_ptr<StepRunner> wrapped_runner(LoadedModels& models, Role role,
                                           const ExecutorOptions& options) {
  std::unique_ptr<StepRunner> runner = make_runner(models, role);
  const AcceptanceSource* const answers = options.answers[static_cast<size_t>(role)];
  if (answers != nullptr) {
    runner = std::make_unique<ReplayedRunner>(std::move(runner), answers, /*skips_prompts=*/true);
  }
  if (options.emulator != nullptr) runner = options.emulator->wrap(role, std::move(runner));
  return runner;
}

// Returns which roles have a thread of their own. `target` is the target's runner.
std::array<bool, kNumRoles> threaded_roles(const LoadedModels& models, const StepEmulator* emulator,
                                           StepRunner& target) {
  const bool emulated_apart = emulator != nullptr && emulator->profile().separate_devices;
  std::array<bool, kNumRoles> threaded{};
  threaded.fill(models.concurrent() || (models.has_draft() && emulated_apart));
  // Stages work at the same time, unless the draft takes turns with all of them.
  const bool pipelined = target.pipelined() != nullptr && !models.has_draft();
  threaded[static_cast<size_t>(Role::kTarget)] |= pipelined;
  return threaded;
}

bool runs_on_gpus(const PlacedModel& model) {
  return !model.stages.empty() && !model.stages.back().gpus.empty();
}

// Returns whether the processors have no other work while both models run on GPUs.
bool may_spin(const LoadedModels& models) {
  return models.concurrent() && runs_on_gpus(models.model(Role::kTarget)) &&
         runs_on_gpus(models.model(Role::kDraft)) && available_cores().size() >= kCoresToSpin;
}

}  // namespace

std::unique_ptr<RealExecutor> make_executor(LoadedModels& models, ExecutorOptions options) {
  RealExecutorOptions executor;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (models.model(role).opened == nullptr) continue;
    executor.runners[static_cast<size_t>(role)] = wrapped_runner(models, role, options);
  }
  executor.threaded = threaded_roles(models, options.emulator,
                                     *executor.runners[static_cast<size_t>(Role::kTarget)]);
  if (may_spin(models)) executor.spin = kSpin;
  if (models.concurrent()) {
    // Pipeline stages have threads of their own.
    executor.on_thread_start = [&models](Role role) {
      const std::vector<PlacedStage>& stages = models.model(role).stages;
      if (stages.size() == 1 && stages.front().is_here) stages.front().devices->pin_caller();
    };
  }
  executor.on_step = std::move(options.on_step);
  executor.trace = options.trace;
  executor.costs = options.costs;
  executor.budget = options.budget;
  executor.draft_window = models.memory().draft_window;
  return std::make_unique<RealExecutor>(std::move(executor));
}

void pin_executors_caller(const LoadedModels& models) {
  const std::vector<PlacedStage>& stages = models.model(Role::kTarget).stages;
  const PlacedStage& stage = stages.front();
  if (models.concurrent() || stages.size() > 1 || !stage.is_here || !stage.gpus.empty()) return;
  stage.devices->pin_caller();
}

}  // namespace forerun
