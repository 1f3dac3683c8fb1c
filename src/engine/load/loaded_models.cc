#include "engine/load/loaded_models.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/weight_files.h"
#include "engine/load/gpu.h"
#include "engine/load/model_facts.h"
#include "engine/load/numerics_options.h"
#include "engine/load/stage_plan.h"
#include "engine/load/weight_agreement.h"
#include "exec/decoder_step_runner.h"
#include "exec/stages/stage_pipeline.h"
#include "exec/stages/stage_threads.h"
#include "hosts/hosts.h"
#include "hosts/remote_stages.h"
#include "model/cpu_decoder.h"
#include "model/decoder_memory.h"
#include "model/device_memory.h"
#include "model/host_memory.h"
#include "model/shard_plan.h"
#include "simulation/replayed_runner.h"

namespace forerun {

Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened) {
  FORERUN_ASSIGN_OR_RETURN(NumericsOptions numerics, parse_numerics(options));
  const OpenedModel* const draft = opened.draft_or_null();
  if (draft != nullptr) {
    if (options.draft_window > 0 && has_window(*draft)) {
      return Status(StatusCode::kInvalidArgument,
                    "draft_window: found " + std::to_string(options.draft_window) +
                        ", but the draft model has layers with a sliding window, which see the "
                        "last tokens only; accepted with it: 0");
    }
    if (!numerics.draft_weights) {
      numerics.draft_weights = choose_draft_weights(*draft, placement.of(Role::kDraft));
    }
  }
  FORERUN_RETURN_IF_ERROR(check_numerics(options, numerics, placement, opened.target, draft));
  ModelsToLoad to_load;
  to_load.models = {{{&opened.target, numerics.weights},
                     {draft, numerics.draft_weights.value_or(WeightOverride::kAsStored)}}};
  to_load.activation = numerics.activation;
  to_load.options = &options;
  return to_load;
}

Result<std::unique_ptr<LoadedModels>> LoadedModels::load(const ModelsToLoad& models,
                                                         const Placement& placement) {
  auto loaded = std::unique_ptr<LoadedModels>(new LoadedModels(placement));
  loaded->hosts_ = models.options->hosts.get();
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    loaded->part(role).opened = models.of(role).opened;
    FORERUN_RETURN_IF_ERROR(loaded->make_devices(models, role));
  }
  FORERUN_RETURN_IF_ERROR(loaded->plan(models));
  if (loaded->hosts_ != nullptr) {
    FORERUN_RETURN_IF_ERROR(loaded->load_with_others(models));
    return loaded;
  }
  FORERUN_RETURN_IF_ERROR(loaded->load_parts(models));
  return loaded;
}

Status LoadedModels::make_devices(const ModelsToLoad& models, Role role) {
  Part& model = part(role);
  if (model.opened == nullptr) return Status();
  const Checkpoint& checkpoint = model.opened->checkpoint;
  const ModelPlacement& placement = placement_.of(role);
  if (role == Role::kDraft && !concurrent()) {
    // The draft runs in turn with the target on its processors, or on those of its last stage.
    Stage& stage = model.stages.emplace_back();
    stage.layers = LayerRange::all(checkpoint.config());
    stage.devices = part(Role::kTarget).stages.back().devices;
    stage.gpus = placement.gpus;
    stage.degree = placement.degree();
    return Status();
  }
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<LayerRange> layers,
      plan_stages(checkpoint, models.of(role).weights, models.activation, placement.on_gpus(),
                  placement.num_stages(),
                  role == Role::kTarget ? models.options->stage_layers : std::vector<int32_t>()));
  for (int32_t idx = 0; idx < placement.num_stages(); ++idx) {
    Stage& stage = model.stages.emplace_back();
    stage.layers = layers[static_cast<size_t>(idx)];
    stage.gpus = placement.stage(idx).gpus;
    stage.degree = placement.stage(idx).degree();
    stage.is_here = hosts_ == nullptr || role == Role::kDraft || hosts_->rank() == idx + 1;
    if (!stage.is_here || placement.stage(idx).devices.empty()) continue;
    FORERUN_ASSIGN_OR_RETURN(devices_.emplace_back(),
                             CpuDeviceGroup::create({.devices = placement.stage(idx).devices}));
    stage.devices = devices_.back().get();
  }
  return Status();
}

Status LoadedModels::check_weights(Role role) const {
  for (const Stage& stage : part(role).stages) {
    if (stage.decoder != nullptr) FORERUN_RETURN_IF_ERROR(stage.decoder->check_weights());
  }
  return {};
}

std::vector<LayerRange> LoadedModels::target_layers() const {
  std::vector<LayerRange> layers;
  for (const Stage& stage : part(Role::kTarget).stages) layers.push_back(stage.layers);
  return layers;
}

std::string describe_stages(const LoadedModels& models, const ModelConfig& config) {
  const std::vector<LayerRange> layers = models.target_layers();
  if (layers.size() < 2) return "";
  std::string text;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    text += "stage " + std::to_string(stage + 1) + ": " + describe(layers[stage], config) + "\n";
  }
  return text;
}

namespace {

// The memory of that name; its size is queried the first time.
Result<DeviceMemory*> memory_of(std::vector<DeviceMemory>& memories, const std::string& name,
                                const std::function<Result<DeviceMemory>()>& ask) {
  for (DeviceMemory& memory : memories) {
    if (memory.name == name) return &memory;
  }
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory memory, ask());
  return &memories.emplace_back(std::move(memory));
}

// A part's name: "draft", for a stage "target stage 2", for a group "draft device 1".
std::string name_of(Role role, const std::string& stage, const std::vector<MemoryNeed>& needs,
                    size_t rank) {
  std::string name = role_name(role) + stage;
  return needs.size() > 1 ? name + " " + needs[rank].name : name;
}

// Notes what a stage of the model needs of each GPU.
Status add_gpu_needs(const ModelsToLoad::Model& model, Role role, const std::string& name,
                     const LayerRange& layers, const std::vector<int32_t>& gpus,
                     std::vector<DeviceMemory>& memories) {
  const Checkpoint& checkpoint = model.opened->checkpoint;
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<MemoryNeed> needs,
      gpu_memory_needs(checkpoint, layers, static_cast<int32_t>(gpus.size()), model.weights));
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const int32_t gpu = gpus[rank];
    FORERUN_ASSIGN_OR_RETURN(
        DeviceMemory* const memory,
        memory_of(memories, "cuda:" + std::to_string(gpu), [gpu] { return gpu_memory(gpu); }));
    memory->needs.push_back(needs[rank]);
    memory->needs.back().role = role;
    memory->needs.back().name = name_of(role, name, needs, rank);
  }
  // Reports this error before anything is loaded, with this model's name.
  return check_memory(memories, 0).with_context(checkpoint.dir().string());
}

// Notes what a stage of the model needs of a host's memory.
Status add_needs_to(DeviceMemory& memory, const ModelsToLoad::Model& model, Role role,
                    const std::string& name, Activation activation, const LayerRange& layers,
                    int32_t degree) {
  const Checkpoint& checkpoint = model.opened->checkpoint;
  const auto plan = make_shard_plan(checkpoint.config(), degree, checkpoint.config().vocab_size);
  if (!plan.ok()) return plan.status().with_context(checkpoint.dir().string());
  const std::vector<MemoryNeed> needs =
      estimate_group_memory(checkpoint, model.weights, activation, *plan, layers);
  for (size_t rank = 0; rank < needs.size(); ++rank) {
    memory.needs.push_back(needs[rank]);
    memory.needs.back().role = role;
    memory.needs.back().name = name_of(role, name, needs, rank);
  }
  return Status();
}

// Adds the needs of a part that lies in host memory; processes of a launch on the same host share
// that memory evenly.
Status add_host_needs(const ModelsToLoad& models, Role role, const std::string& name,
                      const LayerRange& layers, int32_t degree,
                      std::vector<DeviceMemory>& memories) {
  const Hosts* const hosts = models.options->hosts.get();
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory* const memory, memory_of(memories, host_memory().name, [&] {
                             DeviceMemory own = host_memory();
                             if (hosts != nullptr) own.available_bytes /= hosts->place().ranks;
                             return Result<DeviceMemory>(std::move(own));
                           }));
  return add_needs_to(*memory, models.of(role), role, name, models.activation, layers, degree);
}

// Adds the needs of a stage in another process, as if that host had more memory than any stage
// needs: it plans for itself what it has.
Status add_needs_elsewhere(const ModelsToLoad& models, Role role, const std::string& name,
                           const LayerRange& layers, int32_t degree,
                           std::vector<DeviceMemory>& memories) {
  constexpr int64_t kEnough = int64_t{1} << 50;
  DeviceMemory& memory = memories.emplace_back();
  memory.name = role_name(role) + name + "'s host";
  memory.available_bytes = kEnough;
  memory.is_host = true;
  return add_needs_to(memory, models.of(role), role, name, models.activation, layers, degree);
}

}  // namespace

Status LoadedModels::plan(const ModelsToLoad& models) {
  if (hosts_ == nullptr) return plan_own(models);
  FORERUN_RETURN_IF_ERROR(keep_gpus_apart());
  return plan_together(plan_own(models));
}

Status LoadedModels::plan_own(const ModelsToLoad& models) {
  std::vector<DeviceMemory> memories;
  const int32_t longest_context = part(Role::kTarget).opened->checkpoint.config().max_position;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const Part& model = part(role);
    if (model.opened == nullptr) continue;
    for (size_t idx = 0; idx < model.stages.size(); ++idx) {
      const Stage& stage = model.stages[idx];
      const std::string name = model.stages.size() > 1 ? " stage " + std::to_string(idx + 1) : "";
      if (!stage.is_here) {
        FORERUN_RETURN_IF_ERROR(
            add_needs_elsewhere(models, role, name, stage.layers, stage.degree, memories));
      } else if (!stage.gpus.empty()) {
        FORERUN_RETURN_IF_ERROR(
            add_gpu_needs(models.of(role), role, name, stage.layers, stage.gpus, memories));
      } else {
        FORERUN_RETURN_IF_ERROR(
            add_host_needs(models, role, name, stage.layers, stage.degree, memories));
      }
    }
  }
  const bool has_draft = part(Role::kDraft).opened != nullptr;
  const auto stages = static_cast<int32_t>(part(Role::kTarget).stages.size());
  FORERUN_ASSIGN_OR_RETURN(
      memory_, plan_memory(*models.options, longest_context, has_draft, std::move(memories),
                           std::max(stages, models.emulated_stages)));
  return Status();
}

Status LoadedModels::load_parts(const ModelsToLoad& models) {
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    FORERUN_RETURN_IF_ERROR(load_part(models, role));
  }
  return Status();
}

Status LoadedModels::load_part(const ModelsToLoad& models, Role role) {
  Part& model = part(role);
  for (Stage& stage : model.stages) {
    if (!stage.is_here) continue;
    const Status loaded = load_stage(models, role, stage);
    // Checked before `loaded`: where a file has changed meanwhile, an error in its content is only
    // a consequence.
    const Checkpoint& checkpoint = model.opened->checkpoint;
    const auto holds = [&](std::string_view name) {
      return stage.layers.holds(name, checkpoint.config());
    };
    FORERUN_RETURN_IF_ERROR(WeightFiles(checkpoint, holds).check());
    FORERUN_RETURN_IF_ERROR(loaded);
    const Decoder& decoder = *stage.decoder;
    stage.facts = {
        .kv_block_bytes = decoder.kv_block_bytes(),
        .quantizes_keys = decoder.quantizes_keys(),
        .selects_kv = decoder.selects_kv(),
        .kv_reads_per_selection = decoder.layers().heads ? decoder.kv_reads_per_selection() : 0.0};
  }
  return Status();
}

Status LoadedModels::load_stage(const ModelsToLoad& models, Role role, Stage& stage) {
  const OpenedModel& opened = *part(role).opened;
  const int32_t num_layers = opened.checkpoint.config().num_layers;
  std::function<void(double)> progress;
  if (models.options->on_progress) {
    progress = [&on_progress = models.options->on_progress, role, layers = stage.layers,
                num_layers](double fraction) {
      on_progress(std::string("loading ") + role_name(role),
                  (layers.begin + fraction * layers.size()) / num_layers);
    };
  }
  if (!stage.gpus.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        stage.decoder,
        load_on_gpus(opened.checkpoint, stage.layers, stage.gpus, memory_.kv_blocks(role),
                     opened.live_vocab(), models.of(role).weights, std::move(progress)));
    return Status();
  }
  CpuDecoderOptions options;
  options.layers = stage.layers;
  options.activation = models.activation;
  options.weights = models.of(role).weights;
  options.kv_blocks = memory_.kv_blocks(role);
  options.live_vocab = opened.live_vocab();
  options.progress = std::move(progress);
  FORERUN_ASSIGN_OR_RETURN(stage.decoder,
                           CpuDecoder::load(opened.checkpoint, stage.devices, std::move(options)));
  return Status();
}

PipelineStage LoadedModels::stage_here() const {
  const Stage& stage = part(Role::kTarget).stages[static_cast<size_t>(hosts_->rank() - 1)];
  return {stage.decoder.get(), stage.devices};
}

std::unique_ptr<StepRunner> LoadedModels::make_runner(Role role) const {
  const Part& model = part(role);
  const int32_t live_vocab = model.opened->live_vocab();
  if (!model.stages.front().is_here) {
    PipelineFacts facts{.config = &model.opened->checkpoint.config(),
                        .live_vocab = live_vocab,
                        .kv_blocks = memory_.kv_blocks(role),
                        .num_stages = static_cast<int32_t>(model.stages.size())};
    StepDeadlineOptions deadlines;
    deadlines.floor = hosts_->longest_step();
    for (const Stage& stage : model.stages) {
      facts.kv_block_bytes += stage.facts.kv_block_bytes;
      deadlines.weight_bytes.push_back(held_bytes(model.opened->checkpoint, stage.layers));
    }
    return std::make_unique<StagePipeline>(
        std::make_unique<RemoteStages>(hosts_, facts, deadlines));
  }
  if (model.stages.size() == 1) {
    const Stage& stage = model.stages.front();
    return std::make_unique<DecoderStepRunner>(stage.decoder.get(), stage.devices, live_vocab);
  }
  std::vector<PipelineStage> stages;
  for (const Stage& stage : model.stages) stages.push_back({stage.decoder.get(), stage.devices});
  return std::make_unique<StagePipeline>(std::make_unique<StageThreads>(stages, live_vocab));
}

namespace {

// Concurrent on GPUs: waking sleeping threads took 35 us of every draft Step of half a
// millisecond. Longer than such a Step.
constexpr std::chrono::microseconds kSpin{1000};
// Three threads poll, and one a GPU waits for it.
constexpr size_t kCoresToSpin = 12;

}  // namespace

std::unique_ptr<RealExecutor> LoadedModels::make_executor(ExecutorOptions options) {
  RealExecutorOptions executor;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (part(role).opened == nullptr) continue;
    std::unique_ptr<StepRunner> runner = make_runner(role);
    const AcceptanceSource* const answers = options.answers[static_cast<size_t>(role)];
    if (answers != nullptr) {
      runner = std::make_unique<ReplayedRunner>(std::move(runner), answers, /*skips_prompts=*/true);
    }
    if (options.emulator != nullptr) runner = options.emulator->wrap(role, std::move(runner));
    executor.runners[static_cast<size_t>(role)] = std::move(runner);
  }
  const bool emulated_apart =
      options.emulator != nullptr && options.emulator->profile().separate_devices;
  executor.threaded.fill(concurrent() || (has_draft() && emulated_apart));
  // Stages work at the same time, unless the draft takes turns with all of them.
  const auto& target = executor.runners[static_cast<size_t>(Role::kTarget)];
  const bool pipelined = target->pipelined() != nullptr && !has_draft();
  executor.threaded[static_cast<size_t>(Role::kTarget)] |= pipelined;
  const bool on_gpus = std::all_of(parts_.begin(), parts_.end(), [](const Part& model) {
    return !model.stages.empty() && !model.stages.back().gpus.empty();
  });
  if (concurrent() && on_gpus && available_cores().size() >= kCoresToSpin) {
    executor.spin = kSpin;
  }
  if (concurrent()) {
    // Stages have threads of their own.
    executor.on_thread_start = [this](Role role) {
      const std::vector<Stage>& stages = part(role).stages;
      if (stages.size() == 1 && stages.front().is_here) stages.front().devices->pin_caller();
    };
  }
  executor.on_step = std::move(options.on_step);
  executor.trace = options.trace;
  executor.costs = options.costs;
  executor.budget = options.budget;
  executor.draft_window = memory_.draft_window;
  return std::make_unique<RealExecutor>(std::move(executor));
}

void LoadedModels::pin_executors_caller() const {
  const std::vector<Stage>& stages = part(Role::kTarget).stages;
  const Stage& stage = stages.front();
  if (concurrent() || stages.size() > 1 || !stage.is_here || !stage.gpus.empty()) return;
  stage.devices->pin_caller();
}

}  // namespace forerun
