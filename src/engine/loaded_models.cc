#include "engine/loaded_models.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/gpu.h"
#include "exec/cpu_step_runner.h"
#include "model/cpu_decoder.h"
#include "model/decoder_memory.h"
#include "model/gpu_need.h"
#include "model/memory_limit.h"
#include "model/shard_plan.h"

namespace forerun {

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
  FORERUN_RETURN_IF_ERROR(loaded->plan_memory(models));
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    FORERUN_RETURN_IF_ERROR(loaded->load_part(models, role));
  }
  return loaded;
}

namespace {

// The memory of that name, which is asked how much it has the first time.
Result<KvMemory*> memory_of(std::vector<KvMemory>& memories, const std::string& name,
                            const std::function<Result<int64_t>()>& available) {
  for (KvMemory& memory : memories) {
    if (memory.name == name) return &memory;
  }
  FORERUN_ASSIGN_OR_RETURN(const int64_t bytes, available());
  return &memories.emplace_back(KvMemory{name, bytes, 0, {}});
}

// Takes a model's weights and buffers from what the GPUs have, and notes what a token asks for.
Status plan_gpus(const Checkpoint& checkpoint, const std::vector<int32_t>& gpus, bool int4_head,
                 std::vector<KvMemory>& memories) {
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<GpuModelMemory> needs,
      gpu_model_memory(checkpoint, static_cast<int32_t>(gpus.size()), int4_head));
  std::vector<GpuNeed> of_parts;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto free_bytes = [&]() -> Result<int64_t> {
      FORERUN_ASSIGN_OR_RETURN(const GpuMemory memory, gpu_memory(gpus[rank]));
      return memory.free_bytes;
    };
    FORERUN_ASSIGN_OR_RETURN(KvMemory* const memory,
                             memory_of(memories, "cuda:" + std::to_string(gpus[rank]), free_bytes));
    const GpuModelMemory& need = needs[rank];
    of_parts.push_back({.gpu = gpus[rank],
                        .weight_bytes = need.weight_bytes,
                        .buffer_bytes = need.buffer_bytes,
                        .free_bytes = memory->available_bytes});
    memory->available_bytes -= need.weight_bytes + need.buffer_bytes;
    memory->default_bytes = memory->available_bytes / 10 * 9;
    memory->token_bytes.push_back(need.kv_block_bytes / kKvBlockTokens);
  }
  return check_gpu_needs(of_parts).with_context(checkpoint.dir().string());
}

}  // namespace

Status LoadedModels::plan_memory(const ModelsToLoad& models) {
  std::vector<KvMemory> memories;
  int32_t longest_context = std::numeric_limits<int32_t>::max();
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const Part& model = part(role);
    if (model.opened == nullptr) continue;
    const Checkpoint& checkpoint = model.opened->checkpoint;
    longest_context = std::min(longest_context, checkpoint.config().max_position);
    if (!model.gpus.empty()) {
      FORERUN_RETURN_IF_ERROR(
          plan_gpus(checkpoint, model.gpus, models.of(role).int4_head, memories));
      continue;
    }
    FORERUN_ASSIGN_OR_RETURN(KvMemory* const memory, memory_of(memories, "this machine", [] {
                               return Result<int64_t>(memory_limit().available_bytes);
                             }));
    auto plan = make_shard_plan(checkpoint.config(), model.devices->degree(),
                                checkpoint.config().vocab_size);
    if (!plan.ok()) return plan.status().with_context(checkpoint.dir().string());
    for (const DecoderMemory& device :
         estimate_group_memory(checkpoint, WeightOverride::kAsStored, models.activation, *plan)) {
      memory->token_bytes.push_back(device.kv_bytes_per_token);
    }
    memory->default_bytes = memory->available_bytes / 2;
  }
  FORERUN_ASSIGN_OR_RETURN(kv_plan_, plan_kv(*models.options, longest_context,
                                             part(Role::kDraft).opened != nullptr, memories));
  return Status();
}

Status LoadedModels::load_part(const ModelsToLoad& models, Role role) {
  Part& model = part(role);
  if (model.opened == nullptr) return Status();
  const int64_t kv_blocks = role == Role::kTarget ? kv_plan_.target_blocks : kv_plan_.draft_blocks;
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

int64_t LoadedModels::kv_bytes() const {
  int64_t bytes = kv_plan_.target_blocks * part(Role::kTarget).decoder->kv_block_bytes();
  if (has_draft()) bytes += kv_plan_.draft_blocks * part(Role::kDraft).decoder->kv_block_bytes();
  return bytes;
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
  return std::make_unique<RealExecutor>(std::move(executor));
}

}  // namespace forerun
