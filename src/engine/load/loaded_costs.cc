#include "engine/load/loaded_costs.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/load/cost_key.h"

namespace forerun {

CostPlace cost_place(const ModelsToLoad& to_load, const LoadedModels& models) {
  const std::string& folder = to_load.options->cost_cache;
  if (folder.empty()) return {};
  auto key = cost_key(to_load, models.placement(), models.memory().max_context_tokens);
  if (key.ok()) return {.folder = folder, .key = std::move(*key)};
  log_line(LogLevel::kWarning,
           "step costs are measured at every start, since they cannot be stored: " +
               key.status().message());
  return {};
}

Result<StartCosts> costs_of(const CostPlace& place, const LoadedModels& models,
                            RealExecutor& executor, bool measure_anew,
                            const ProgressCallback& on_progress) {
  return find_or_measure_costs(executor, models.has_draft(), models.memory().max_context_tokens,
                               CostCache(place.folder), place.key, measure_anew, on_progress);
}

}  // namespace forerun
