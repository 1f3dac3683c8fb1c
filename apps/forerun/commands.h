// The subcommands. Each registers its flags on `app`; the returned function runs it after parsing
// and gives the process's exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

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
Command add_plan(CLI::App& app);
Command add_trace(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_completion(CLI::App& app);
Command add_man(CLI::App& app);

}  // namespace forerun::app
