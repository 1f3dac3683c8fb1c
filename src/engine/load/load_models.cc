#include "engine/load/load_models.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/load/gpus_apart.h"
#include "engine/load/load_stages.h"
#include "engine/load/memory_agreement.h"
#include "engine/load/model_transfer.h"
#include "engine/load/placed_models.h"
#include "engine/load/stage_facts.h"
#include "engine/load/stage_memory.h"
#include "engine/load/weight_agreement.h"
#include "hosts/hosts.h"

namespace forerun {
namespace {

Result<MemoryPlan> plan(const ModelsToLoad& models, const PlacedModels& placed) {
  Hosts* const hosts = models.options->hosts.get();
  if (hosts == nullptr) return plan_stage_memory(models, placed);
  FORERUN_RETURN_IF_ERROR(keep_gpus_apart(*hosts, own_gpus(placed.gpus_here())));
  return agree_on_memory(*hosts, plan_stage_memory(models, placed));
}

// Loads this process's stages. Returns digests of the target's tensors: a stage digests the tensors
// that it loads, the coordinator its own copy of all tensors.
Result<std::vector<TensorFact>> load_and_digest(const ModelsToLoad& models,
                                                const MemoryPlan& memory, PlacedModels& placed) {
  const EngineOptions& options = *models.options;
  const PlacedModel& target = placed.of(Role::kTarget);
  const Checkpoint& checkpoint = target.opened->checkpoint;
  // A stage computes its digests before it loads, which leaves the pages in memory for loading. The
  // coordinator computes its own afterwards, while the stages load.
  if (options.hosts->is_coordinator()) {
    FORERUN_RETURN_IF_ERROR(load_stages(models, memory, placed));
    return digest_held_tensors(checkpoint, target.layers(), options);
  }
  const LayerRange own = target.stage_here().layers;
  FORERUN_ASSIGN_OR_RETURN(std::vector<TensorFact> weights,
                           digest_held_tensors(checkpoint, {&own, 1}, options));
  FORERUN_RETURN_IF_ERROR(load_stages(models, memory, placed));
  return weights;
}

// Exchanges facts of stages. On the coordinator, fills in the facts of the stages in other
// processes.
Status exchange_facts(Hosts& hosts, const Status& loaded, PlacedModel& target) {
  Result<StageFacts> own = StageFacts();
  if (!loaded.ok()) {
    own = loaded;
  } else if (!hosts.is_coordinator()) {
    own = target.stage_here().facts;
  }
  FORERUN_ASSIGN_OR_RETURN(const std::vector<StageFacts> gathered, gather_stage_facts(hosts, own));
  for (size_t idx = 0; idx < gathered.size(); ++idx) target.stages[idx].facts = gathered[idx];
  return {};
}

Status load_in_launch(const ModelsToLoad& models, const MemoryPlan& memory, PlacedModels& placed) {
  Hosts& hosts = *models.options->hosts;
  const Result<std::vector<TensorFact>> weights = load_and_digest(models, memory, placed);
  FORERUN_RETURN_IF_ERROR(exchange_facts(hosts, weights.status(), placed.of(Role::kTarget)));
  Status agreed = agree_on_weights(hosts, *weights);
  if (!agreed.ok() && models.transfer != nullptr) models.transfer->doubt();
  return agreed;
}

// Before anything looks at a weight of the layers that are loaded here.
Status complete_transfer(const ModelsToLoad& models, const PlacedModels& placed) {
  if (models.transfer == nullptr) return {};
  const PlacedModel& target = placed.of(Role::kTarget);
  const LayerRange own =
      models.options->hosts->is_coordinator() ? LayerRange() : target.stage_here().layers;
  return models.transfer->complete(target.opened->checkpoint, own);
}

}  // namespace

Result<std::unique_ptr<LoadedModels>> load_models(const ModelsToLoad& models,
                                                  const Placement& placement) {
  FORERUN_ASSIGN_OR_RETURN(PlacedModels placed, place_stages(models, placement));
  FORERUN_RETURN_IF_ERROR(complete_transfer(models, placed));
  FORERUN_ASSIGN_OR_RETURN(MemoryPlan memory, plan(models, placed));
  Hosts* const hosts = models.options->hosts.get();
  FORERUN_RETURN_IF_ERROR(hosts == nullptr ? load_stages(models, memory, placed)
                                           : load_in_launch(models, memory, placed));
  return std::make_unique<LoadedModels>(placement, std::move(memory), std::move(placed), hosts);
}

}  // namespace forerun
