// The subcommands. Each registers its flags on `app`; the returned function runs it after parsing
// and returns the process's exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli11_names.h"
#include "forerun/status.h"

namespace forerun::app {

struct Command {
  CLI::App* app;
  std::function<Status()> run;
};

Command add_generate(CLI::App& app);
Command add_chat(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_trace(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_completion(CLI::App& app);
Command add_man(CLI::App& app);

// Adds all commands, in the order of the help (commands.cc); in forerun-demo only `generate`
// (demo/commands.cc).
std::vector<Command> add_commands(CLI::App& app);

}  // namespace forerun::app
