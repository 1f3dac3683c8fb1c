#include "engine/load/measure_devices.h"

#include <memory>

#include "base/status_macros.h"
#include "engine/load/check_options.h"
#include "engine/load/device_spec.h"
#include "engine/load/load_models.h"
#include "engine/load/loaded_costs.h"
#include "engine/load/make_executor.h"
#include "engine/load/models_to_load.h"
#include "engine/load/opened_model.h"
#include "engine/load/stage_plan.h"
#include "kernels/isa.h"

namespace forerun {

Result<StartCosts> measure_devices(const EngineOptions& options) {
  if (!options.emulate.empty() || options.try_splits) {
    return Status(
        StatusCode::kInvalidArgument,
        "measuring: found a machine to emulate, or splits to try; accepted: neither, only devices");
  }
  FORERUN_RETURN_IF_ERROR(check_isa());
  FORERUN_ASSIGN_OR_RETURN(
      const Placement placement,
      place_models(options.devices, options.draft_devices, stages_of(options)));
  FORERUN_RETURN_IF_ERROR(check_options(options, placement));
  FORERUN_ASSIGN_OR_RETURN(const OpenedModels opened, open_models(options));
  FORERUN_ASSIGN_OR_RETURN(const ModelsToLoad to_load, models_to_load(options, placement, opened));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModels> models,
                           load_models(to_load, placement));
  const auto executor = make_executor(*models, {});
  return costs_of(cost_place(to_load, *models), *models, *executor, options.measure_anew,
                  options.on_progress);
}

}  // namespace forerun
