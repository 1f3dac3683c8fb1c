// Commands that create an engine, alone or as processes of a launch: under mpirun, or Slurm, rank 0
// runs the command, with the other ranks as stages of its target.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "commands.h"
#include "forerun/engine.h"

namespace forerun::app {

// The command with flags of several hosts. `engine` gets EngineOptions::hosts before `run` is
// called; a rank that is a stage serves it in place of `run`.
Command with_hosts(CLI::App* command, EngineOptions* engine, std::function<Status()> run);

// At the process's end: leaves the launch, if there is one. Gives `exit_code` back.
int leave_launch(int exit_code);

}  // namespace forerun::app
