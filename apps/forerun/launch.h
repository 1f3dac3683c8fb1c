// Commands that create an engine: in this process, over the hosts of a file as a launch that is
// supervised from here, or as a process of a launch (mpirun, Slurm), of which rank 0 runs the
// command with the other ranks as stages of its target.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "commands.h"
#include "forerun/engine.h"

namespace forerun::app {

// The command with flags of several hosts. `engine` gets EngineOptions::hosts before `run` is
// called; a rank that is a stage serves it in place of `run`. With --hosts `run` is called here,
// and make_engine() gives an engine over these hosts; where `runs_there` says so, for what needs
// more than an Engine's requests (traces), rank 0 of the launch runs all of the command instead.
Command with_hosts(
    CLI::App* command, EngineOptions* engine, std::function<Status()> run,
    std::function<bool()> runs_there = [] { return false; });

// Engine::create, or, under --hosts, its supervised like.
Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options);

// From here on make_engine() puts the engine into a process of its own, which is started again when
// it dies; `relaunches` as SupervisorOptions'. Refused where --hosts does that already.
Status isolate_engine(int32_t relaunches);

// The ranks of a supervised launch; not listed.
Command add_serve_launch(CLI::App& app);

// At the process's end: leaves the launch, if there is one. Gives `exit_code` back.
int leave_launch(int exit_code);
// It then ends all processes of the launch.
void end_launch_when_leaving(bool ends);
// And removes this folder where nothing is in it any more.
void remove_when_leaving(const std::string& folder);

}  // namespace forerun::app
