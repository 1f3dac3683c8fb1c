#include "commands.h"

namespace forerun::app {

std::vector<Command> add_commands(CLI::App& app) { return {add_generate(app)}; }

}  // namespace forerun::app
