#include "engine/load/cache_folders.h"

#include <cstdlib>
#include <system_error>

namespace forerun {

std::string user_cache_folder(const char* name) {
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
  return (cache / "forerun" / name).string();
}

std::string default_cost_cache() { return user_cache_folder("step-costs"); }

std::filesystem::path digest_folder(const EngineOptions& options, const char* name) {
  if (options.cost_cache.empty()) return {};
  std::error_code error;
  std::filesystem::path given = std::filesystem::path(options.cost_cache) / name;
  std::filesystem::create_directories(given, error);
  if (!error) return given;
  const std::string costs = default_cost_cache();
  return costs.empty() ? std::filesystem::path() : std::filesystem::path(costs) / name;
}

}  // namespace forerun
