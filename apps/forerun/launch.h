// Commands that create an engine. The engine runs in this process; or, with --hosts, in a launch
// over several hosts that this process supervises; or this process is part of a launch (mpirun,
// Slurm), in which rank 0 runs the command and the other ranks are stages of its target.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli11_names.h"
#include "commands.h"
#include "forerun/engine.h"

namespace forerun::app {

// Adds the flags of several hosts to a command. Before `run` is called, EngineOptions::hosts is set
// in `engine`; a rank that is a stage serves its stage instead of calling `run`. With --hosts,
// `run` is called in this process, and make_engine() returns an engine over the hosts. If
// `runs_there` returns true, since the command needs more than requests (for example traces), rank
// 0 of the launch runs the whole command instead.
Command with_hosts(
    CLI::App* command, EngineOptions* engine, std::function<Status()> run,
    std::function<bool()> runs_there = [] { return false; });

// Calls Engine::create() or, with --hosts, makes a supervised engine.
Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options);

// Makes make_engine() run the engine in a process of its own from now on, which is restarted when
// it dies; for `relaunches` see SupervisorOptions. Fails with --hosts, which already does so.
Status isolate_engine(int32_t relaunches);

// Adds the hidden command that the ranks of a supervised launch run.
Command add_serve_launch(CLI::App& app);

// Leaves the launch, if there is one, at the end of the process. Returns `exit_code`.
int leave_launch(int exit_code);
// Sets whether leave_launch() ends all processes of the launch.
void end_launch_when_leaving(bool ends);
// Makes leave_launch() also remove this folder if it is empty.
void remove_when_leaving(const std::string& folder);

}  // namespace forerun::app
