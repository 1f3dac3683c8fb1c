// Both models on their devices, loaded and ready to run Steps.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "device/cpu/device_group.h"
#include "engine/device_spec.h"
#include "engine/memory_plan.h"
#include "engine/opened_model.h"
#include "exec/emulated/step_emulator.h"
#include "exec/real_executor.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "simulation/acceptance_source.h"
#include "step/types.h"

namespace forerun {

// What to load. Everything pointed to must outlive what is loaded.
struct ModelsToLoad {
  struct Model {
    const OpenedModel* opened = nullptr;
    WeightOverride weights = WeightOverride::kAsStored;  // on processors
    bool int4_head = false;                              // on GPUs
  };
  std::array<Model, kNumRoles> models;  // the draft's may be none
  Activation activation = Activation::kBf16;
  const EngineOptions* options = nullptr;  // context, KV memory, progress

  const Model& of(Role role) const { return models[static_cast<size_t>(role)]; }
};

// What the options ask for of models that have been opened, which must outlive it, as `options`
// must. Fails on names and numbers that the devices cannot compute with.
Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened);

class LoadedModels {
 public:
  // Plans the memory and loads what there is. Fails as CpuDeviceGroup::create, plan_memory,
  // make_shard_plan and the backends' load.
  static Result<std::unique_ptr<LoadedModels>> load(const ModelsToLoad& models,
                                                    const Placement& placement);

  const Placement& placement() const { return placement_; }
  const MemoryPlan& memory() const { return memory_; }
  // Each model has devices of its own.
  bool side_by_side() const { return !placement_.in_turn(); }
  bool has_draft() const { return part(Role::kDraft).decoder != nullptr; }
  bool quantizes_keys(Role role) const {
    return part(role).decoder != nullptr && part(role).decoder->quantizes_keys();
  }
  bool selects_kv(Role role) const {
    return part(role).decoder != nullptr && part(role).decoder->selects_kv();
  }
  double readings_a_choice(Role role) const { return part(role).decoder->readings_a_choice(); }
  int32_t target_degree() const { return placement_.target.degree(); }

  struct ExecutorOptions {
    StepEmulator* emulator = nullptr;  // null: Steps last as long as they do
    // What answers in a role's model's place (simulation/replayed_runner.h), prompts skipped; null:
    // the model.
    std::array<const AcceptanceSource*, kNumRoles> answers = {};
    std::function<void(const StepRecord&)> on_step = {};
    bool trace = false;
    const LiveCosts* costs = nullptr;  // as RealExecutorOptions'
    StepBudget budget = {};
  };
  // The models must outlive it; one at a time runs Steps.
  std::unique_ptr<RealExecutor> make_executor(ExecutorOptions options);

 private:
  struct Part {
    const OpenedModel* opened = nullptr;
    CpuDeviceGroup* devices = nullptr;  // samples, and runs the passes where there are no GPUs
    std::vector<int32_t> gpus;
    std::unique_ptr<Decoder> decoder;
  };
  explicit LoadedModels(const Placement& placement) : placement_(placement) {}
  Part& part(Role role) { return parts_[static_cast<size_t>(role)]; }
  const Part& part(Role role) const { return parts_[static_cast<size_t>(role)]; }
  Status plan(const ModelsToLoad& models);
  Status load_part(const ModelsToLoad& models, Role role);

  const Placement placement_;
  MemoryPlan memory_;
  std::unique_ptr<CpuDeviceGroup> devices_;        // the target's
  std::unique_ptr<CpuDeviceGroup> draft_devices_;  // null: the target's, in turn
  std::array<Part, kNumRoles> parts_;
};

}  // namespace forerun
