#include "engine/loaded_models.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/gpu.h"
#include "engine/numerics_options.h"
#include "exec/cpu_step_runner.h"
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
    choose_draft_weights(*draft, placement.of(Role::kDraft), numerics.draft_weights);
  }
  FORERUN_RETURN_IF_ERROR(check_numerics(options, numerics, placement, draft));
  ModelsToLoad to_load;
  to_load.models = {{{&opened.target, numerics.weights, false},
                     {draft, numerics.draft_weights.layers, numerics.draft_weights.int4_head}}};
  to_load.activation = numerics.activation;
  to_load.options = &options;
  return to_load;
}

Result<std::unique_ptr<LoadedModels>> LoadedModels::load(const ModelsToLoad& models,
                                                         const Placement& placement) {
  auto loaded = std::unique_ptr<LoadedModels>(new LoadedModels(placement));
  FORERUN_ASSIGN_OR_RETURN(loaded->devices_,
                           CpuDeviceGroup::create({.devices = placement.target.devices}));
  if (loaded->side_by_side()) {
    FORERUN_ASSIGN_OR_RETURN(loaded->draft_devices_,
                             CpuDeviceGroup::create({.devices = placement.draft->devices}));
  }
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const bool own = role == Role::kDraft && placement.draft;
    Part& part = loaded->part(role);
    part.opened = models.of(role).opened;
    part.devices =
        (own && loaded->draft_devices_ ? loaded->draft_devices_ : loaded->devices_).get();
    part.gpus = own ? placement.draft->gpus : placement.target.gpus;
  }
  FORERUN_RETURN_IF_ERROR(loaded->plan(models));
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    FORERUN_RETURN_IF_ERROR(loaded->load_part(models, role));
  }
  return loaded;
}

namespace {

// The memory of that name, which is asked how much it has the first time.
Result<DeviceMemory*> memory_of(std::vector<DeviceMemory>& memories, const std::string& name,
                                const std::function<Result<DeviceMemory>()>& ask) {
  for (DeviceMemory& memory : memories) {
    if (memory.name == name) return &memory;
  }
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory memory, ask());
  return &memories.emplace_back(std::move(memory));
}

// "draft", or of a group "draft device 1".
std::string name_of(Role role, const std::vector<MemoryNeed>& needs, size_t rank) {
  return needs.size() > 1 ? std::string(role_name(role)) + " " + needs[rank].name : role_name(role);
}

// Notes what the model needs of each GPU.
Status add_gpu_needs(const ModelsToLoad::Model& model, Role role, const std::vector<int32_t>& gpus,
                     std::vector<DeviceMemory>& memories) {
  const Checkpoint& checkpoint = model.opened->checkpoint;
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<MemoryNeed> needs,
      gpu_memory_needs(checkpoint, static_cast<int32_t>(gpus.size()), model.int4_head));
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const int32_t gpu = gpus[rank];
    FORERUN_ASSIGN_OR_RETURN(
        DeviceMemory* const memory,
        memory_of(memories, "cuda:" + std::to_string(gpu), [gpu] { return gpu_memory(gpu); }));
    memory->needs.push_back(needs[rank]);
    memory->needs.back().name = name_of(role, needs, rank);
  }
  // Said before anything is loaded, and of this model.
  return check_memory(memories, 0).with_context(checkpoint.dir().string());
}

Status add_host_needs(const ModelsToLoad::Model& model, Role role, Activation activation,
                      int32_t degree, std::vector<DeviceMemory>& memories) {
  const Checkpoint& checkpoint = model.opened->checkpoint;
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory* const memory, memory_of(memories, host_memory().name, [] {
                             return Result<DeviceMemory>(host_memory());
                           }));
  const auto plan = make_shard_plan(checkpoint.config(), degree, checkpoint.config().vocab_size);
  if (!plan.ok()) return plan.status().with_context(checkpoint.dir().string());
  const std::vector<MemoryNeed> needs = estimate_group_memory(
      checkpoint, model.weights, activation, *plan, LayerRange::all(checkpoint.config()));
  for (size_t rank = 0; rank < needs.size(); ++rank) {
    memory->needs.push_back(needs[rank]);
    memory->needs.back().name = name_of(role, needs, rank);
  }
  return Status();
}

}  // namespace

Status LoadedModels::plan(const ModelsToLoad& models) {
  std::vector<DeviceMemory> memories;
  int32_t longest_context = std::numeric_limits<int32_t>::max();
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const Part& model = part(role);
    if (model.opened == nullptr) continue;
    longest_context = std::min(longest_context, model.opened->checkpoint.config().max_position);
    if (!model.gpus.empty()) {
      FORERUN_RETURN_IF_ERROR(add_gpu_needs(models.of(role), role, model.gpus, memories));
    } else {
      FORERUN_RETURN_IF_ERROR(add_host_needs(models.of(role), role, models.activation,
                                             model.devices->degree(), memories));
    }
  }
  const bool has_draft = part(Role::kDraft).opened != nullptr;
  FORERUN_ASSIGN_OR_RETURN(
      memory_, plan_memory(*models.options, longest_context, has_draft, std::move(memories)));
  return Status();
}

Status LoadedModels::load_part(const ModelsToLoad& models, Role role) {
  Part& model = part(role);
  if (model.opened == nullptr) return Status();
  const int64_t kv_blocks = memory_.kv_blocks(role);
  std::function<void(double)> progress;
  if (models.options->on_progress) {
    progress = [&on_progress = models.options->on_progress, role](double fraction) {
      on_progress(std::string("loading ") + role_name(role), fraction);
    };
  }
  if (!model.gpus.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        model.decoder,
        load_on_gpus(model.opened->checkpoint, model.gpus, kv_blocks, model.opened->live_vocab(),
                     models.of(role).int4_head, std::move(progress)));
    return Status();
  }
  CpuDecoderOptions options;
  options.activation = models.activation;
  options.weights = models.of(role).weights;
  options.kv_blocks = kv_blocks;
  options.live_vocab = model.opened->live_vocab();
  options.progress = std::move(progress);
  FORERUN_ASSIGN_OR_RETURN(
      model.decoder, CpuDecoder::load(model.opened->checkpoint, model.devices, std::move(options)));
  return Status();
}

namespace {

// Side by side on GPUs: waking sleeping threads took 35 us of every draft Step of half a
// millisecond. Longer than such a Step.
constexpr std::chrono::microseconds kSpin{1000};
// Three threads poll, and one a GPU waits for it.
constexpr size_t kCoresToSpin = 12;

}  // namespace

std::unique_ptr<RealExecutor> LoadedModels::make_executor(ExecutorOptions options) {
  RealExecutorOptions executor;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const Part& model = part(role);
    if (!model.decoder) continue;
    std::unique_ptr<StepRunner> runner = std::make_unique<CpuStepRunner>(
        model.decoder.get(), model.devices, model.opened->live_vocab());
    const AcceptanceSource* const answers = options.answers[static_cast<size_t>(role)];
    if (answers != nullptr) {
      runner = std::make_unique<ReplayedRunner>(std::move(runner), answers, /*skips_prompts=*/true);
    }
    if (options.emulator != nullptr) runner = options.emulator->wrap(role, std::move(runner));
    executor.runners[static_cast<size_t>(role)] = std::move(runner);
  }
  const bool emulated_apart =
      options.emulator != nullptr && options.emulator->profile().separate_devices;
  executor.threaded.fill(side_by_side() || (has_draft() && emulated_apart));
  const bool on_gpus = std::all_of(parts_.begin(), parts_.end(),
                                   [](const Part& model) { return !model.gpus.empty(); });
  if (side_by_side() && on_gpus && available_cores().size() >= kCoresToSpin) {
    executor.spin = kSpin;
  }
  if (side_by_side()) {
    executor.on_thread_start = [this](Role role) { part(role).devices->pin_caller(); };
  }
  executor.on_step = std::move(options.on_step);
  executor.trace = options.trace;
  executor.costs = options.costs;
  executor.budget = options.budget;
  return std::make_unique<RealExecutor>(std::move(executor));
}

}  // namespace forerun
