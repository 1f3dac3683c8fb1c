// forerun serve-launch: the command that every process of a supervised launch runs. Rank 0 has the
// engine and communicates with the supervisor through mpirun's standard input and output; the
// others get the engine's options from it and are its stages.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/stage_host.h"
#include "host_flags.h"
#include "hosts/mpi_transport.h"
#include "launch.h"
#include "parent_watch.h"
#include "supervisor/launch_folder.h"
#include "supervisor/log_lines.h"
#include "supervisor/message.h"
#include "supervisor/serve_engine.h"

namespace forerun::app {
namespace {

struct ServeFlags {
  HostFlags hosts;
  std::string folder;
  bool alone = false;
  bool answer = false;
};

// The supervisor's descriptors, moved so that no other code in this process reads or prints to
// them.
struct Standard {
  int input = -1;
  int output = -1;
};

Result<Standard> take_standard() {
  const Standard taken{fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                       fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool good = taken.input >= 0 && taken.output >= 0 && nothing >= 0 &&
                    dup2(nothing, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  if (nothing >= 0) close(nothing);
  if (good) return taken;
  return Status(StatusCode::kResourceExhausted,
                std::string("serve-launch: no descriptor: ") + std::strerror(errno));
}

// Makes the memory that processes of this machine share belong to the launch: its supervisor
// removes it.
void share_memory_in(const std::string& name) {
  const std::string folder = LaunchFolder::memory_folder(name).string();
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return;  // MPI finds another place
  remove_when_leaving(folder);
  setenv("OMPI_MCA_btl_vader_backing_directory", folder.c_str(), /*overwrite=*/1);
}

// `hosts` null: this process is the whole launch.
Status coordinate(const Standard& standard, const std::shared_ptr<Hosts>& hosts) {
  ServedEngine served;
  served.input = standard.input;
  served.output = standard.output;
  served.create = [hosts](EngineOptions options) {
    if (hosts != nullptr) hosts->give_notice(write_options(options));
    options.hosts = hosts;
    return Engine::create(options);
  };
  if (hosts != nullptr) {
    served.failure = [hosts] { return LostLaunch{hosts->failure(), hosts->failed_rank()}; };
  }
  return serve_engine(served);
}

Status be_stage(const std::shared_ptr<Hosts>& hosts) {
  FORERUN_ASSIGN_OR_RETURN(const Bytes notice, hosts->take_notice());
  FORERUN_ASSIGN_OR_RETURN(EngineOptions options, read_options(notice));
  options.hosts = hosts;
  return run_stage_host(options);
}

Status serve_launch(const ServeFlags& flags) {
  if (!flags.folder.empty()) {
    if (!LaunchFolder::is_name(flags.folder)) {
      return Status(StatusCode::kInvalidArgument, "--launch-folder: found '" + flags.folder +
                                                      "'; accepted: a name that a supervisor made");
    }
    // It forks, so the process must have only one thread.
    LaunchFolder::leave_sweeper(flags.folder);
    if (!flags.answer) LaunchFolder::remove_abandoned();
  }
  if (flags.answer) return Status();  // the answer is that the program runs
  const ParentWatch watch;            // watches mpirun, or mpirun's daemon on this host
  log_to_supervisor();
  std::signal(SIGPIPE, SIG_IGN);
  if (flags.alone) {
    FORERUN_ASSIGN_OR_RETURN(const Standard own, take_standard());
    return coordinate(own, nullptr);
  }
  share_memory_in(flags.folder);
  FORERUN_ASSIGN_OR_RETURN(const Standard standard, take_standard());
  FORERUN_RETURN_IF_ERROR(check_mpi());
  end_launch_when_leaving(true);
  FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<Hosts> hosts, join_hosts(flags.hosts));
  const bool is_coordinator = hosts->is_coordinator();
  const Status status = is_coordinator ? coordinate(standard, hosts) : be_stage(hosts);
  end_launch_when_leaving(hosts->has_lost_anybody() || !hosts->failure().ok() || !status.ok());
  return status;
}

}  // namespace

Command add_serve_launch(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve-launch", "A process of a supervised launch");
  command->group("");  // only for supervisors
  auto flags = std::make_shared<ServeFlags>();
  add_host_flags(*command, flags->hosts, "");
  command->add_option("--launch-folder", flags->folder);
  command->add_flag("--answer", flags->answer,
                    "Only exit with 0, to say that this host can take part in a launch");
  command->add_flag("--alone", flags->alone, "This process is all of the launch");
  return {command, [flags] { return serve_launch(*flags); }};
}

}  // namespace forerun::app
