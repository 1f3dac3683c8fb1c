// Both models on their devices, loaded and ready to run Steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
#include "model/layer_range.h"
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

class LoadedModels;

// A line for each stage of a target that is cut, with its layers; else nothing.
std::string describe_stages(const LoadedModels& models, const ModelConfig& config);

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
  bool has_draft() const { return part(Role::kDraft).opened != nullptr; }
  // Whether all stages do.
  bool quantizes_keys(Role role) const {
    return all_stages(role, [](const Decoder& decoder) { return decoder.quantizes_keys(); });
  }
  bool selects_kv(Role role) const {
    return all_stages(role, [](const Decoder& decoder) { return decoder.selects_kv(); });
  }
  double readings_a_choice(Role role) const {
    return part(role).stages.back().decoder->readings_a_choice();
  }
  // Of the target's stages; one: it is not cut.
  std::vector<LayerRange> target_layers() const;

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
  struct Stage {
    // Samples, and runs the passes where there are no GPUs. Of an earlier stage on GPUs null.
    CpuDeviceGroup* devices = nullptr;
    std::vector<int32_t> gpus;
    LayerRange layers;
    std::unique_ptr<Decoder> decoder;

    int32_t degree() const {
      return gpus.empty() ? devices->degree() : static_cast<int32_t>(gpus.size());
    }
  };
  struct Part {
    const OpenedModel* opened = nullptr;  // null: there is no such model
    std::vector<Stage> stages;            // in order; one: the model is not cut
  };
  explicit LoadedModels(const Placement& placement) : placement_(placement) {}
  template <class Does>
  bool all_stages(Role role, const Does& does) const {
    return part(role).opened != nullptr &&
           std::all_of(part(role).stages.begin(), part(role).stages.end(),
                       [&](const Stage& stage) { return does(*stage.decoder); });
  }
  // Makes the devices of a model and of its stages.
  Status make_devices(const ModelsToLoad& models, Role role);
  Part& part(Role role) { return parts_[static_cast<size_t>(role)]; }
  const Part& part(Role role) const { return parts_[static_cast<size_t>(role)]; }
  Status plan(const ModelsToLoad& models);
  Status load_part(const ModelsToLoad& models, Role role);
  std::unique_ptr<StepRunner> make_runner(Role role) const;

  const Placement placement_;
  MemoryPlan memory_;
  std::vector<std::unique_ptr<CpuDeviceGroup>> devices_;
  std::array<Part, kNumRoles> parts_;
};

}  // namespace forerun
