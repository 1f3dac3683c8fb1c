// Implements launch.h for a program that runs the engine only in its own process.
#include "launch.h"

#include <utility>

namespace forerun::app {

Command with_hosts(CLI::App* command, EngineOptions* /*engine*/, std::function<Status()> run,
                   std::function<bool()> /*runs_there*/) {
  return {command, std::move(run)};
}

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) {
  return Engine::create(options);
}

int leave_launch(int exit_code) { return exit_code; }

}  // namespace forerun::app
