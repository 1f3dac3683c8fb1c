#include "engine/load/stage_host.h"

#include <chrono>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "engine/load/check_options.h"
#include "engine/load/host_agreement.h"
#include "engine/load/host_placement.h"
#include "engine/load/load_models.h"
#include "engine/load/model_transfer.h"
#include "engine/load/models_to_load.h"
#include "engine/load/opened_model.h"
#include "exec/stages/stage_worker.h"
#include "hosts/hosts.h"
#include "hosts/stage_server.h"
#include "kernels/isa.h"

namespace forerun {
namespace {

// The time that a failed stage waits for the coordinator to report the failure.
constexpr std::chrono::milliseconds kCoordinatorsWord{1000};

struct OpenedStage {
  Placement placement;
  std::unique_ptr<ModelTransfer> transfer;
  std::optional<OpenedModels> opened;
  ModelsToLoad to_load;
};

// Reads everything but the weights.
Result<HostFacts> open_stage(const EngineOptions& options, OpenedStage& stage) {
  FORERUN_RETURN_IF_ERROR(check_isa());
  FORERUN_ASSIGN_OR_RETURN(stage.placement, place_on_hosts(options));
  FORERUN_RETURN_IF_ERROR(check_options(options, stage.placement));
  FORERUN_ASSIGN_OR_RETURN(stage.opened, open_models(options));
  FORERUN_ASSIGN_OR_RETURN(stage.to_load, models_to_load(options, stage.placement, *stage.opened));
  return facts_of_host(options, stage.to_load, stage.placement);
}

// Opens this host's copy of the model, or, where there is none, what the coordinator sends of it.
Result<HostFacts> open_or_receive(EngineOptions& options, OpenedStage& stage) {
  const bool lacks_model = ModelTransfer::report(options);
  Result<HostFacts> facts = lacks_model ? HostFacts() : open_stage(options, stage);
  FORERUN_ASSIGN_OR_RETURN(stage.transfer, ModelTransfer::accept(lacks_model, options));
  if (lacks_model) facts = open_stage(options, stage);
  if (stage.transfer == nullptr) return facts;
  stage.to_load.stage_layers = stage.transfer->stage_layers();
  stage.to_load.transfer = stage.transfer.get();
  return facts;
}

Status load_and_serve(EngineOptions& options) {
  Hosts& hosts = *options.hosts;
  OpenedStage stage;
  FORERUN_RETURN_IF_ERROR(hosts.agree(open_or_receive(options, stage)));
  FORERUN_RETURN_IF_ERROR(agree_on_isa(hosts));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModels> models,
                           load_models(stage.to_load, stage.placement));
  const PipelineStage here = models->stage_here();
  if (here.devices != nullptr) here.devices->pin_caller();
  const int32_t live_vocab = stage.opened->target.live_vocab();
  StageWorker worker(here, hosts.rank() - 1, hosts.num_stages(), live_vocab);
  return serve_stage(hosts, worker, live_vocab);
}

}  // namespace

Status run_stage_host(EngineOptions options) {
  options.draft.clear();
  options.draft_devices.clear();
  options.draft_window = 0;
  options.on_progress = {};
  const Status status = load_and_serve(options);
  if (status.ok()) return status;
  options.hosts->end(status);
  if (options.hosts->is_dismissed(kCoordinatorsWord)) return Status();
  return status.with_context(options.hosts->describe(options.hosts->rank()));
}

}  // namespace forerun
