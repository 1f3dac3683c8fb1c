#include "engine/load/loaded_costs.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "engine/load/cost_key.h"

namespace forerun {

std::string default_cost_cache() {
  // The XDG base directory specification says that relative paths must be ignored.
  const auto absolute = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value == '/' ? std::filesystem::path(value)
                                             : std::filesystem::path();
  };
  std::filesystem::path cache = absolute("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::filesystem::path home = absolute("HOME");
    if (home.empty()) return "";
    cache = home / ".cache";
  }
  return (cache / "forerun" / "step-costs").string();
}

Result<StartCosts> costs_of(const ModelsToLoad& to_load, const LoadedModels& models,
                            RealExecutor& executor, const ProgressCallback& on_progress) {
  const EngineOptions& options = *to_load.options;
  const int32_t max_context_tokens = models.memory().max_context_tokens;
  std::filesystem::path folder = options.cost_cache;
  CostKey key;
  if (!folder.empty()) {
    auto made = cost_key(to_load, models.placement(), max_context_tokens);
    if (made.ok()) {
      key = std::move(*made);
    } else {
      log_line(LogLevel::kWarning,
               "step costs are measured at every start, since they cannot be stored: " +
                   made.status().message());
      folder.clear();
    }
  }
  return find_or_measure_costs(executor, models.has_draft(), max_context_tokens,
                               CostCache(std::move(folder)), key, options.measure_anew,
                               on_progress);
}

}  // namespace forerun
