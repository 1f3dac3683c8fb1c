// Both models on their devices, loaded and ready to run Steps. Where the target's stages are
// processes of a launch (EngineOptions::hosts), each stage's process holds its stage, and the
// coordinator holds the draft.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/device_group.h"
#include "engine/load/device_spec.h"
#include "engine/load/gpus_apart.h"
#include "engine/load/memory_plan.h"
#include "engine/load/opened_model.h"
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
  int32_t emulated_stages = 1;             // stages that the emulated target is cut into

  const Model& of(Role role) const { return models[static_cast<size_t>(role)]; }
};

// What `options` ask to load of the opened models; both must outlive the result. Fails on weight
// and activation types that the devices cannot compute with.
Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened);

class LoadedModels;

// A line for each stage of a target that is cut, with the stage's layers; otherwise empty.
std::string describe_stages(const LoadedModels& models, const ModelConfig& config);

class LoadedModels {
 public:
  // Plans the memory and loads the models. Fails as CpuDeviceGroup::create, plan_memory,
  // make_shard_plan and the backends' load. In a launch all processes call it, plan together, and
  // all fail where one of them does.
  static Result<std::unique_ptr<LoadedModels>> load(const ModelsToLoad& models,
                                                    const Placement& placement);

  const Placement& placement() const { return placement_; }
  const MemoryPlan& memory() const { return memory_; }
  // Whether each model has devices of its own.
  bool concurrent() const { return !placement_.sequential(); }
  bool has_draft() const { return part(Role::kDraft).opened != nullptr; }
  // Whether all stages of the model can.
  bool quantizes_keys(Role role) const {
    return all_stages(role, [](const StageFacts& stage) { return stage.quantizes_keys; });
  }
  bool selects_kv(Role role) const {
    return all_stages(role, [](const StageFacts& stage) { return stage.selects_kv; });
  }
  double kv_reads_per_selection(Role role) const {
    return part(role).stages.back().facts.kv_reads_per_selection;
  }
  // The first failure of Decoder::check_weights() over the model's stages in this process.
  Status check_weights(Role role) const;
  // The layers of each stage of the target; a single range where it is not cut.
  std::vector<LayerRange> target_layers() const;
  // Only in a stage's process: its stage.
  PipelineStage stage_here() const;

  struct ExecutorOptions {
    StepEmulator* emulator = nullptr;  // null: Steps last as long as they do
    // For each role, what answers in place of its model, which then reads no prompts
    // (simulation/replayed_runner.h); null: the model answers.
    std::array<const AcceptanceSource*, kNumRoles> answers = {};
    std::function<void(const StepRecord&)> on_step = {};
    bool trace = false;
    const LiveCosts* costs = nullptr;  // as RealExecutorOptions'
    StepBudget budget = {};
  };
  // The models must outlive the executor. Only one executor may run Steps at a time.
  std::unique_ptr<RealExecutor> make_executor(ExecutorOptions options);
  // Called by the thread that calls the executor's next(). Where that thread is a member of a team
  // of CPU threads, it is pinned to its own processor, as the other members are. If it were not,
  // the kernel's scheduler would put it on another member's processor as soon as other processes
  // are busy, and the two would wait for each other.
  void pin_executors_caller() const;

 private:
  // Facts of a stage's decoder, which may be in another process.
  struct StageFacts {
    int64_t kv_block_bytes = 0;
    bool quantizes_keys = false;
    bool selects_kv = false;
    double kv_reads_per_selection = 0.0;
  };
  struct Stage {
    bool is_here = true;  // false: another process holds the stage
    // Samples, and runs forwards where there are no GPUs. Null for an earlier stage on GPUs and for
    // a stage in another process.
    CpuDeviceGroup* devices = nullptr;
    std::vector<int32_t> gpus;
    int32_t degree = 1;
    LayerRange layers;
    std::unique_ptr<Decoder> decoder;  // null: in another process
    StageFacts facts;
  };
  struct Part {
    const OpenedModel* opened = nullptr;  // null: the role has no model
    std::vector<Stage> stages;            // in order; a single one where the model is not cut
  };
  explicit LoadedModels(const Placement& placement) : placement_(placement) {}
  template <class Does>
  bool all_stages(Role role, const Does& does) const {
    return part(role).opened != nullptr &&
           std::all_of(part(role).stages.begin(), part(role).stages.end(),
                       [&](const Stage& stage) { return does(stage.facts); });
  }
  // Makes the CPU devices of a model's stages.
  Status make_devices(const ModelsToLoad& models, Role role);
  Part& part(Role role) { return parts_[static_cast<size_t>(role)]; }
  const Part& part(Role role) const { return parts_[static_cast<size_t>(role)]; }
  Status plan(const ModelsToLoad& models);
  Status plan_own(const ModelsToLoad& models);
  Status load_parts(const ModelsToLoad& models);
  Status load_part(const ModelsToLoad& models, Role role);
  Status load_stage(const ModelsToLoad& models, Role role, Stage& stage);
  // In a launch: agrees on as many blocks as the process with the least room has
  // (loaded_models_hosts.cc).
  Status plan_together(const Status& own);
  // The GPUs of this process. Fails as gpu_uuid().
  Result<std::vector<OwnedGpu>> own_gpus() const;
  // Compares them with the other processes' GPUs; all processes fail where two have the same one.
  Status keep_gpus_apart();
  // In a launch: load_parts(), then fails unless all processes have the same weights
  // (loaded_models_hosts.cc).
  Status load_with_others(const ModelsToLoad& models);
  // In a launch: the coordinator receives StageFacts from the stages, a stage sends its own.
  Status exchange_facts(const Status& loaded);
  std::unique_ptr<StepRunner> make_runner(Role role) const;

  const Placement placement_;
  Hosts* hosts_ = nullptr;  // null: not a launch
  MemoryPlan memory_;
  std::vector<std::unique_ptr<CpuDeviceGroup>> devices_;
  std::array<Part, kNumRoles> parts_;
};

}  // namespace forerun
