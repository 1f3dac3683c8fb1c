#include "host_flags.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "base/status_macros.h"
#include "hosts/cut_links.h"
#include "hosts/mpi_transport.h"
#include "hosts/slow_links.h"

namespace forerun::app {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000.0 * seconds));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Reads the secret of a launch from a file. Only the file's path is ever passed as an argument,
// never its content.
Result<std::string> read_secret(const std::string& path) {
  if (path.empty()) return std::string();
  struct stat about {};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text{};
  const bool is_open = file >= 0 && fstat(file, &about) == 0;
  const ssize_t size = is_open ? read(file, text.data(), text.size()) : -1;
  if (file >= 0) close(file);
  if (size <= 0) {
    return Status(StatusCode::kNotFound, "--secret-file: '" + path + "'" +
                                             (size < 0 ? " cannot be read" : " is empty") +
                                             "; accepted: a file with the secret of the launch");
  }
  if (about.st_uid != geteuid() || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "--secret-file: '" + path +
            "' is open to other users; accepted: a file of mode 0600 that this user owns");
  }
  return std::string(text.data(), static_cast<size_t>(size));
}

}  // namespace

std::chrono::milliseconds HostFlags::silence() const { return milliseconds_of(silence_s); }
std::chrono::milliseconds HostFlags::start() const { return milliseconds_of(start_s); }

std::vector<std::string> HostFlags::arguments() const {
  std::vector<std::string> arguments = {"--silence-s", std::to_string(silence_s),
                                        "--start-s",   std::to_string(start_s),
                                        "--step-s",    std::to_string(step_s)};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (!secret_file.empty()) add("--secret-file", secret_file);
  if (link_delay_ms > 0.0) add("--link-delay-ms", std::to_string(link_delay_ms));
  if (link_gbit > 0.0) add("--link-gbit", std::to_string(link_gbit));
  if (!link_cuts.empty()) add("--link-cuts", link_cuts);
  return arguments;
}

void add_host_flags(CLI::App& command, HostFlags& flags, const std::string& group) {
  command
      .add_option(
          "--secret-file", flags.secret_file,
          "A file of mode 0600 with the same content on every host: a process with another one "
          "cannot join")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--silence-s", flags.silence_s,
                  "A process that sends nothing for so many seconds is lost")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--start-s", flags.start_s,
                  "Seconds within which all processes must start and connect")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--step-s", flags.step_s,
                  "Seconds that a stage may work on a Step, beyond the time to read its weights "
                  "at 100 MB/s and ten times what such a Step has taken; a slower one is lost")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(group);
  command.add_option("--link-delay-ms", flags.link_delay_ms, "For trials: delay of every message")
      ->check(CLI::Range(0.0, 10000.0))
      ->group(group);
  command
      .add_option("--link-gbit", flags.link_gbit,
                  "For trials: bandwidth of a link, in Gbit/s; 0: no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->group(group);
  command
      .add_option("--link-cuts", flags.link_cuts,
                  "For trials: while this file has a line such as '1 2', nothing passes between "
                  "these ranks")
      ->type_name("FILE")
      ->group(group);
}

Status check_secret(const HostFlags& flags) { return read_secret(flags.secret_file).status(); }

Result<std::unique_ptr<Hosts>> join_hosts(const HostFlags& flags) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begun = Clock::now();
  HostsOptions options;
  FORERUN_ASSIGN_OR_RETURN(options.secret, read_secret(flags.secret_file));
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, start_mpi(flags.start()));
  if (!flags.link_cuts.empty()) {
    transport = std::make_unique<CutLinks>(std::move(transport), flags.link_cuts);
  }
  if (flags.link_delay_ms > 0.0 || flags.link_gbit > 0.0) {
    const LinkSpeed speed{
        .delay = std::chrono::nanoseconds(static_cast<int64_t>(1e6 * flags.link_delay_ms)),
        .bytes_per_second = 1e9 / 8.0 * flags.link_gbit};
    transport = std::make_unique<SlowLinks>(std::move(transport), speed);
  }
  options.host = host_name();
  options.place = place_on_machine();
  // MPI's start has used up a part of --start-s; the greeting gets the rest.
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  options.timeout = std::max(flags.start() - used, std::chrono::milliseconds(1));
  options.messenger.longest_silence = flags.silence();
  options.messenger.ping_every = options.messenger.longest_silence / 20;
  options.longest_step = milliseconds_of(flags.step_s);
  return Hosts::join(std::move(transport), options);
}

}  // namespace forerun::app
