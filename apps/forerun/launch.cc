#include "launch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/stage_host.h"
#include "hosts/hosts.h"
#include "hosts/mpi_transport.h"
#include "hosts/slow_links.h"
#include "start_hosts.h"

namespace forerun::app {
namespace {

struct HostFlags {
  HostStart start;
  std::string secret_file;
  double silence_s = 10.0;
  double start_s = 60.0;
  double link_delay_ms = 0.0;
  double link_gbit = 0.0;
};

bool must_end_launch = false;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000.0 * seconds));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// What only who may read the file knows. Its path is an argument, its content never.
Result<std::string> read_secret(const std::string& path) {
  if (path.empty()) return std::string();
  struct stat about {};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text{};
  const bool is_open = file >= 0 && fstat(file, &about) == 0;
  const ssize_t size = is_open ? read(file, text.data(), text.size()) : -1;
  if (file >= 0) close(file);
  if (size <= 0) {
    return Status(StatusCode::kNotFound,
                  "--secret-file: cannot read '" + path + "', or it is empty");
  }
  if (about.st_uid != geteuid() || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--secret-file: others than this user may use '" + path +
                      "'; accepted is a file of mode 0600 that is the user's");
  }
  return std::string(text.data(), static_cast<size_t>(size));
}

Result<std::unique_ptr<Hosts>> join(const HostFlags& flags) {
  HostsOptions options;
  FORERUN_ASSIGN_OR_RETURN(options.secret, read_secret(flags.secret_file));
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                           start_mpi(milliseconds_of(flags.start_s)));
  if (flags.link_delay_ms > 0.0 || flags.link_gbit > 0.0) {
    const LinkSpeed speed{
        .delay = std::chrono::nanoseconds(static_cast<int64_t>(1e6 * flags.link_delay_ms)),
        .bytes_per_second = 1e9 / 8.0 * flags.link_gbit};
    transport = std::make_unique<SlowLinks>(std::move(transport), speed);
  }
  options.host = host_name();
  options.place = place_on_machine();
  options.patience = milliseconds_of(flags.start_s);
  options.messenger.longest_silence = milliseconds_of(flags.silence_s);
  options.messenger.ping_every = options.messenger.longest_silence / 20;
  return Hosts::join(std::move(transport), options);
}

Status run_rank(const HostFlags& flags, EngineOptions& engine, const std::function<Status()>& run) {
  must_end_launch = true;  // whoever cannot join leaves others waiting for it
  FORERUN_ASSIGN_OR_RETURN(engine.hosts, join(flags));
  const bool is_coordinator = engine.hosts->is_coordinator();
  const Status status = is_coordinator ? run() : run_stage_host(engine);
  // A coordinator that fails by itself has told the others, who leave as after a good end.
  must_end_launch = engine.hosts->has_lost_anybody() || (!is_coordinator && !status.ok());
  engine.hosts.reset();
  return status;
}

}  // namespace

Command with_hosts(CLI::App* command, EngineOptions* engine, std::function<Status()> run) {
  auto flags = std::make_shared<HostFlags>();
  constexpr const char* kGroup = "Several hosts, also under mpirun or Slurm";
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
      ->add_option("--secret-file", flags->secret_file,
                   "A file of mode 0600 with the same content on every host: who has another one "
                   "cannot join")
      ->type_name("FILE")
      ->group(kGroup);
  command
      ->add_option("--silence-s", flags->silence_s,
                   "A process that is not heard of for so many seconds is lost")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--start-s", flags->start_s,
                   "All processes have started and met within so many seconds")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--link-delay-ms", flags->link_delay_ms,
                   "For trials: messages take so much longer")
      ->check(CLI::Range(0.0, 10000.0))
      ->group(kGroup);
  command
      ->add_option("--link-gbit", flags->link_gbit,
                   "For trials: links carry so many Gbit/s, 0: what they do")
      ->check(CLI::Range(0.0, 1e6))
      ->group(kGroup);
  return {command, [flags, engine, run = std::move(run)] {
            const bool is_rank = processes_of_launch() > 1;
            if (!is_rank && flags->start.file.empty()) return run();
            FORERUN_RETURN_IF_ERROR(check_mpi());
            return is_rank ? run_rank(*flags, *engine, run) : start_on_hosts(flags->start);
          }};
}

int leave_launch(int exit_code) {
  leave_mpi(must_end_launch, exit_code == 0 ? 1 : exit_code);
  return exit_code;
}

}  // namespace forerun::app
