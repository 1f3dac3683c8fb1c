// Both models on their devices, loaded and ready to run Steps. Of a target whose stages are
// processes of a launch (EngineOptions::hosts) a stage's process holds that stage, the
// coordinator's the draft.
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
#include "engine/gpus_apart.h"
#include "engine/memory_plan.h"
#include "engine/opened_model.h"
#include "exec/emulated/step_emulator.h"
#include "exec/real_executor.h"
#include "exec/stages/stage_worker.h"
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
    WeightOverride weights = WeightOverride::kAsStored;
  };
  std::array<Model, kNumRoles> models;  // the draft's may be none
  Activation activation = Activation::kBf16;
  const EngineOptions* options = nullptr;  // context, KV memory, progress
  int32_t emulated_stages = 1;             // that Steps of the target take time as if cut into

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
  // make_shard_plan and the backends' load. In a launch all processes call it, plan together, and
  // fail where one of them does.
  static Result<std::unique_ptr<LoadedModels>> load(const ModelsToLoad& models,
                                                    const Placement& placement);

  const Placement& placement() const { return placement_; }
  const MemoryPlan& memory() const { return memory_; }
  // Each model has devices of its own.
  bool concurrent() const { return !placement_.sequential(); }
  bool has_draft() const { return part(Role::kDraft).opened != nullptr; }
  // Whether all stages do.
  bool quantizes_keys(Role role) const {
    return all_stages(role, [](const StageFacts& stage) { return stage.quantizes_keys; });
  }
  bool selects_kv(Role role) const {
    return all_stages(role, [](const StageFacts& stage) { return stage.selects_kv; });
  }
  double readings_a_choice(Role role) const {
    return part(role).stages.back().facts.readings_a_choice;
  }
  // The first failure of Decoder::check_weights() over the model's stages in this process.
  Status check_weights(Role role) const;
  // The layers of each stage of the target; a single range where it is not cut.
  std::vector<LayerRange> target_layers() const;
  // In a stage's process: the stage.
  PipelineStage stage_here() const;

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
  // For the thread that calls its next(): where that thread is itself a member of a team of
  // processors, it is pinned to its own, as the others are to theirs. Left where it is, the
  // scheduler puts it beside one of them as soon as others are busy too, and the two wait for each
  // other in turns.
  void pin_executors_caller() const;

 private:
  // What a decoder says of itself, also one in another process.
  struct StageFacts {
    int64_t kv_block_bytes = 0;
    bool quantizes_keys = false;
    bool selects_kv = false;
    double readings_a_choice = 0.0;
  };
  struct Stage {
    bool is_here = true;  // not another process's
    // Samples, and runs the passes where there are no GPUs. Of an earlier stage on GPUs, and of one
    // elsewhere, null.
    CpuDeviceGroup* devices = nullptr;
    std::vector<int32_t> gpus;
    int32_t degree = 1;
    LayerRange layers;
    std::unique_ptr<Decoder> decoder;  // null: it is elsewhere
    StageFacts facts;
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
                       [&](const Stage& stage) { return does(stage.facts); });
  }
  // Makes the devices of a model and of its stages.
  Status make_devices(const ModelsToLoad& models, Role role);
  Part& part(Role role) { return parts_[static_cast<size_t>(role)]; }
  const Part& part(Role role) const { return parts_[static_cast<size_t>(role)]; }
  Status plan(const ModelsToLoad& models);
  Status plan_own(const ModelsToLoad& models);
  Status load_parts(const ModelsToLoad& models);
  Status load_part(const ModelsToLoad& models, Role role);
  Status load_stage(const ModelsToLoad& models, Role role, Stage& stage);
  // In a launch: as many blocks as the process with the least room has (loaded_models_hosts.cc).
  Status plan_together(const Status& own);
  // The GPUs of this process. Fails as gpu_uuid().
  Result<std::vector<OwnedGpu>> own_gpus() const;
  // Compares them with the other processes', and fails in all where two have the same one.
  Status keep_gpus_apart();
  // In a launch: load_parts(), then fails unless all processes have the same weights
  // (loaded_models_hosts.cc).
  Status load_with_others(const ModelsToLoad& models);
  // In a launch: hears what the stages elsewhere are, or tells of the own one.
  Status exchange_facts(const Status& loaded);
  std::unique_ptr<StepRunner> make_runner(Role role) const;

  const Placement placement_;
  Hosts* hosts_ = nullptr;  // null: all is in this process
  MemoryPlan memory_;
  std::vector<std::unique_ptr<CpuDeviceGroup>> devices_;
  std::array<Part, kNumRoles> parts_;
};

}  // namespace forerun
