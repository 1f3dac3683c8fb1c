#include "launch.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/model_transfer.h"
#include "engine/load/stage_host.h"
#include "host_flags.h"
#include "hosts/host_file.h"
#include "hosts/host_lines.h"
#include "hosts/mpi_transport.h"
#include "interrupt.h"
#include "start_hosts.h"
#include "supervisor/mpirun_command.h"
#include "supervisor/supervised_engine.h"
#include "text_input.h"

namespace forerun::app {
namespace {

struct LaunchFlags {
  HostStart start;
  HostFlags hosts;
  int32_t relaunches = SupervisorOptions().relaunches;
};

bool must_end_launch = false;
bool is_supervised = false;
std::string shared_folder;
std::function<Result<std::unique_ptr<Engine>>(const EngineOptions&)> make = Engine::create;

Status run_rank(const HostFlags& flags, EngineOptions& engine, const std::function<Status()>& run) {
  must_end_launch = true;  // others wait for a process that cannot join
  FORERUN_ASSIGN_OR_RETURN(engine.hosts, join_hosts(flags));
  const bool is_coordinator = engine.hosts->is_coordinator();
  Status status = is_coordinator ? run() : run_stage_host(engine);
  // A coordinator that fails by itself has told the other processes, which then leave as after a
  // success.
  must_end_launch = engine.hosts->has_lost_anybody() || !engine.hosts->failure().ok() ||
                    (!is_coordinator && !status.ok());
  engine.hosts.reset();
  return status;
}

Result<std::unique_ptr<Engine>> make_supervised(const LaunchFlags& flags,
                                                const MpirunOptions& mpirun,
                                                const EngineOptions& engine) {
  SupervisorOptions options;
  options.engine = engine;
  options.hosts = mpirun.hosts;
  options.relaunches = flags.relaunches;
  options.longest_silence = flags.hosts.silence();
  options.start_timeout = flags.hosts.start();
  options.answer_timeout = std::min(options.answer_timeout, options.start_timeout);
  options.doubts_requests = true;
  options.ask = [mpirun](const std::string& host, const std::string& folder) {
    MpirunOptions there = mpirun;
    there.hosts = {host};
    there.folder = folder;
    there.process = {mpirun.process.front(), "serve-launch", "--answer", "--launch-folder", folder};
    return mpirun_command(there);
  };
  options.command = [mpirun](const std::string& folder) {
    MpirunOptions here = mpirun;
    here.folder = folder;
    here.process.insert(here.process.end(), {"--launch-folder", folder});
    return mpirun_command(here);
  };
  const InterruptGuard guard;
  options.is_cancelled = [] { return InterruptGuard::interrupted(); };
  return create_supervised_engine(std::move(options));
}

Result<std::unique_ptr<Engine>> make_isolated(const std::string& program, int32_t relaunches,
                                              const EngineOptions& engine) {
  SupervisorOptions options;
  options.engine = engine;
  options.hosts = {"localhost"};
  options.relaunches = relaunches;
  options.doubts_requests = true;
  options.command = [program](const std::string&) {
    return std::vector<std::string>{program, "serve-launch", "--alone"};
  };
  const InterruptGuard guard;
  options.is_cancelled = [] { return InterruptGuard::interrupted(); };
  return create_supervised_engine(std::move(options));
}

// Makes make_engine() return supervised engines over the hosts of --hosts from now on.
Status supervise(const LaunchFlags& flags) {
  MpirunOptions mpirun;
  FORERUN_ASSIGN_OR_RETURN(const std::string text, read_text("--hosts", flags.start.file));
  FORERUN_ASSIGN_OR_RETURN(const std::vector<HostAddress> hosts,
                           parse_host_file(text, flags.start.file));
  for (const HostAddress& host : hosts) mpirun.hosts.push_back(host.name);
  FORERUN_RETURN_IF_ERROR(check_network(flags.start.network));
  FORERUN_RETURN_IF_ERROR(check_secret(flags.hosts));
  FORERUN_ASSIGN_OR_RETURN(HostLines made, HostLines::make(hosts));
  auto lines = std::make_shared<HostLines>(std::move(made));
  mpirun.host_files = lines->paths();
  mpirun.network = flags.start.network;
  FORERUN_ASSIGN_OR_RETURN(const std::string program, own_program());
  mpirun.process = {program, "serve-launch"};
  const std::vector<std::string> arguments = flags.hosts.arguments();
  mpirun.process.insert(mpirun.process.end(), arguments.begin(), arguments.end());
  is_supervised = true;
  make = [flags, mpirun, lines](const EngineOptions& engine) {
    return make_supervised(flags, mpirun, engine);
  };
  return {};
}

constexpr const char* kGroup = "Several hosts, also under mpirun or Slurm";

// Refuses the flags of several hosts in a command that runs in one process.
Status check_alone(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != kGroup || option->count() == 0) continue;
    return Status(StatusCode::kInvalidArgument,
                  option->get_name() +
                      ": found in one process; accepted: with --hosts, or in several "
                      "processes under mpirun or Slurm");
  }
  return {};
}

}  // namespace

Command with_hosts(CLI::App* command, EngineOptions* engine, std::function<Status()> run,
                   std::function<bool()> runs_there) {
  auto flags = std::make_shared<LaunchFlags>();
  command
      ->add_option("--hosts", flags->start.file,
                   "Start over the hosts of this file: the first has the text and the draft, each "
                   "further one is a stage of the target")
      ->type_name("FILE")
      ->group(kGroup);
  command
      ->add_option(
          "--network", flags->start.network,
          "With --hosts: the interface or network to use (eth1, 10.0.0.0/24; default: all)")
      ->group(kGroup);
  command
      ->add_option(
          "--relaunches", flags->relaunches,
          "With --hosts: most restarts after failures within ten minutes, with no work done "
          "between them; one failure more ends the command")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--send-model", engine->send_model,
                   "To which hosts the model is sent, each what its stage needs: missing (those on "
                   "which --model names nothing), always, never")
      ->check(CLI::IsMember(send_model_names()))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--model-cache", engine->model_cache,
                   "Folder in which a host keeps what it is sent (default: ~/.cache/forerun/models "
                   "there)")
      ->type_name("DIR")
      ->group(kGroup);
  add_host_flags(*command, flags->hosts, kGroup);
  return {command,
          [command, flags, engine, run = std::move(run), runs_there = std::move(runs_there)] {
            const bool is_rank = processes_of_launch() > 1;
            if (!is_rank && flags->start.file.empty()) {
              FORERUN_RETURN_IF_ERROR(check_alone(*command));
              return run();
            }
            FORERUN_RETURN_IF_ERROR(check_mpi());
            if (is_rank) return run_rank(flags->hosts, *engine, run);
            if (runs_there()) return start_on_hosts(flags->start);
            FORERUN_RETURN_IF_ERROR(supervise(*flags));
            return run();
          }};
}

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) { return make(options); }

Status isolate_engine(int32_t relaunches) {
  if (is_supervised) {
    return Status(StatusCode::kInvalidArgument,
                  "--isolate: found together with --hosts, whose engine runs in other processes "
                  "anyway; accepted: one of the two");
  }
  FORERUN_ASSIGN_OR_RETURN(const std::string program, own_program());
  make = [program, relaunches](const EngineOptions& engine) {
    return make_isolated(program, relaunches, engine);
  };
  return {};
}

int leave_launch(int exit_code) {
  leave_mpi(must_end_launch, exit_code == 0 ? 1 : exit_code);
  if (!shared_folder.empty()) rmdir(shared_folder.c_str());  // the last process here removes it
  return exit_code;
}

void end_launch_when_leaving(bool ends) { must_end_launch = ends; }
void remove_when_leaving(const std::string& folder) { shared_folder = folder; }

}  // namespace forerun::app
