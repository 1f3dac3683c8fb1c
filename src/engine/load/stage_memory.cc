#include "engine/load/stage_memory.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/load/gpu.h"
#include "engine/load/tap_plan.h"
#include "hosts/hosts.h"
#include "model/decoder_memory.h"
#include "model/device_memory.h"
#include "model/host_memory.h"
#include "model/shard_plan.h"

namespace forerun {
namespace {

// The memories that hold stages, each with the needs of the stages added so far.
class StageMemories {
 public:
  StageMemories(const ModelsToLoad& models, const PlacedModels& placed)
      : models_(models), placed_(placed) {}

  // `stage_name` follows the role's name in messages: " stage 2", or empty.
  Status add(Role role, const std::string& stage_name, const PlacedStage& stage) {
    if (!stage.is_here) return add_elsewhere(role, stage_name, stage);
    if (!stage.gpus.empty()) return add_on_gpus(role, stage_name, stage);
    return add_on_host(role, stage_name, stage);
  }
  std::vector<DeviceMemory> take() { return std::move(memories_); }

 private:
  // Returns the memory of that name; queries its size the first time. Valid until the next call.
  Result<DeviceMemory*> memory_of(const std::string& name,
                                  const std::function<Result<DeviceMemory>()>& query);
  Status add_on_gpus(Role role, const std::string& stage_name, const PlacedStage& stage);
  Status add_on_host(Role role, const std::string& stage_name, const PlacedStage& stage);
  Status add_elsewhere(Role role, const std::string& stage_name, const PlacedStage& stage);
  // Adds the stage's needs to a host's memory.
  Status add_needs_to(DeviceMemory& memory, Role role, const std::string& stage_name,
                      const PlacedStage& stage);

  const ModelsToLoad& models_;
  const PlacedModels& placed_;
  std::vector<DeviceMemory> memories_;
};

Result<DeviceMemory*> StageMemories::memory_of(const std::string& name,
                                               const std::function<Result<DeviceMemory>()>& query) {
  for (DeviceMemory& memory : memories_) {
    if (memory.name == name) return &memory;
  }
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory memory, query());
  return &memories_.emplace_back(std::move(memory));
}

// Adds the need of rank `rank` to `memory`, under the part's name: "draft", for a stage "target
// stage 2", for a group "draft device 1".
void add_need(DeviceMemory& memory, Role role, const std::string& stage_name,
              const std::vector<MemoryNeed>& needs, size_t rank) {
  MemoryNeed& need = memory.needs.emplace_back(needs[rank]);
  need.role = role;
  need.name = role_name(role) + stage_name;
  if (needs.size() > 1) need.name += " " + needs[rank].name;
}

Status StageMemories::add_on_gpus(Role role, const std::string& stage_name,
                                  const PlacedStage& stage) {
  const Checkpoint& checkpoint = models_.of(role).opened->checkpoint;
  TargetOfHead target;
  if (models_.of(role).opened->is_head()) {
    const PlacedStage& last = placed_.of(Role::kTarget).stages.back();
    target = {.checkpoint = &models_.of(Role::kTarget).opened->checkpoint,
              .gpus = last.degree,
              .embeds = last.layers.embeds};
  }
  FORERUN_ASSIGN_OR_RETURN(
      std::vector<MemoryNeed> needs,
      gpu_memory_needs(checkpoint, stage.layers, static_cast<int32_t>(stage.gpus.size()),
                       models_.of(role).weights, target));
  needs.front().buffer_bytes += tap_bytes(models_, role, stage.layers);
  for (size_t rank = 0; rank < stage.gpus.size(); ++rank) {
    const int32_t gpu = stage.gpus[rank];
    FORERUN_ASSIGN_OR_RETURN(
        DeviceMemory* const memory,
        memory_of("cuda:" + std::to_string(gpu), [gpu] { return gpu_memory(gpu); }));
    add_need(*memory, role, stage_name, needs, rank);
  }
  // Reports this error before anything is loaded, with this model's name.
  return check_memory(memories_, 0).with_context(checkpoint.path().string());
}

Status StageMemories::add_on_host(Role role, const std::string& stage_name,
                                  const PlacedStage& stage) {
  const Hosts* const hosts = models_.options->hosts.get();
  FORERUN_ASSIGN_OR_RETURN(DeviceMemory* const memory, memory_of(host_memory().name, [&] {
                             DeviceMemory own = host_memory();
                             if (hosts != nullptr) own.available_bytes /= hosts->place().ranks;
                             return Result<DeviceMemory>(std::move(own));
                           }));
  return add_needs_to(*memory, role, stage_name, stage);
}

Status StageMemories::add_elsewhere(Role role, const std::string& stage_name,
                                    const PlacedStage& stage) {
  constexpr int64_t kEnough = int64_t{1} << 50;
  DeviceMemory& memory = memories_.emplace_back();
  memory.name = role_name(role) + stage_name + "'s host";
  memory.available_bytes = kEnough;
  memory.is_host = true;
  return add_needs_to(memory, role, stage_name, stage);
}

Status StageMemories::add_needs_to(DeviceMemory& memory, Role role, const std::string& stage_name,
                                   const PlacedStage& stage) {
  const ModelsToLoad::Model& model = models_.of(role);
  const Checkpoint& checkpoint = model.opened->checkpoint;
  const ModelConfig& config = checkpoint.config();
  const auto plan = make_shard_plan(config, stage.degree, config.vocab_size);
  if (!plan.ok()) return plan.status().with_context(checkpoint.path().string());
  std::vector<MemoryNeed> needs =
      estimate_group_memory(checkpoint, model.weights, models_.activation, *plan, stage.layers,
                            &models_.of(Role::kTarget).opened->checkpoint);
  needs.front().buffer_bytes += tap_bytes(models_, role, stage.layers);
  for (size_t rank = 0; rank < needs.size(); ++rank) {
    add_need(memory, role, stage_name, needs, rank);
  }
  return {};
}

}  // namespace

Result<MemoryPlan> plan_stage_memory(const ModelsToLoad& models, const PlacedModels& placed) {
  StageMemories memories(models, placed);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const std::vector<PlacedStage>& stages = placed.of(role).stages;
    for (size_t idx = 0; idx < stages.size(); ++idx) {
      const std::string name = stages.size() > 1 ? " stage " + std::to_string(idx + 1) : "";
      FORERUN_RETURN_IF_ERROR(memories.add(role, name, stages[idx]));
    }
  }
  const PlacedModel& target = placed.of(Role::kTarget);
  const auto num_stages = static_cast<int32_t>(target.stages.size());
  return plan_memory(*models.options, target.opened->checkpoint.config().max_position,
                     placed.of(Role::kDraft).opened != nullptr, memories.take(),
                     std::max(num_stages, models.emulated_stages));
}

}  // namespace forerun
