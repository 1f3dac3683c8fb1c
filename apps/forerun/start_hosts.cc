#include "start_hosts.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "hosts/host_file.h"
#include "hosts/host_lines.h"
#include "interrupt.h"
#include "supervisor/lines.h"
#include "supervisor/mpirun_command.h"
#include "supervisor/mpirun_notices.h"
#include "text_input.h"

namespace forerun::app {
namespace {

constexpr int kNotFound = 127;

// Returns this process's arguments unchanged, with its program as a path.
Result<std::vector<std::string>> own_command() {
  FORERUN_ASSIGN_OR_RETURN(const std::string arguments, read_text("--hosts", "/proc/self/cmdline"));
  std::vector<std::string> command;
  for (size_t at = 0; at < arguments.size();) {
    const size_t end = std::min(arguments.find('\0', at), arguments.size());
    command.push_back(arguments.substr(at, end - at));
    at = end + 1;
  }
  FORERUN_ASSIGN_OR_RETURN(command.front(), own_program());
  return command;
}

[[noreturn]] void become(const std::vector<std::string>& command, int errors) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  dup2(errors, STDERR_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun then ends all ranks
  execvp(arguments.front(), arguments.data());
  _exit(kNotFound);
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::fprintf(stderr, "%s\n", line.c_str());
}

// Returns the child's exit code, or 128 plus the signal that ended it. Passes signals of this
// process on to the child. Writes the lines that the child puts into `errors` to standard error,
// without mpirun's boxes.
int wait_for(pid_t child, LineReader& errors, MpirunNotices& notices) {
  int status = 0;
  bool told = false;
  for (bool ended = false; !ended;) {
    ended = waitpid(child, &status, WNOHANG) != 0;
    std::vector<std::string> lines;
    static_cast<void>(errors.read(lines));  // false at the end, when no more lines arrive
    for (std::string& line : lines) print(notices.push(std::move(line)));
    // In this process blocking system calls are restarted after a signal, so this polls instead.
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (InterruptGuard::interrupted() && !std::exchange(told, true)) kill(child, SIGTERM);
  }
  print(notices.finish());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<std::string> own_program() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return Status(StatusCode::kInternal, "--hosts: this program has no path");
  return program;
}

Status start_on_hosts(const HostStart& start) {
  FORERUN_ASSIGN_OR_RETURN(const std::string text, read_text("--hosts", start.file));
  FORERUN_ASSIGN_OR_RETURN(const std::vector<HostAddress> hosts, parse_host_file(text, start.file));
  FORERUN_RETURN_IF_ERROR(check_network(start.network));
  MpirunOptions mpirun;
  for (const HostAddress& host : hosts) mpirun.hosts.push_back(host.name);
  FORERUN_ASSIGN_OR_RETURN(const HostLines lines, HostLines::make(hosts));
  mpirun.host_files = lines.paths();
  mpirun.network = start.network;
  FORERUN_ASSIGN_OR_RETURN(mpirun.process, own_command());
  const std::vector<std::string> command = mpirun_command(mpirun);

  const InterruptGuard guard;
  std::array<int, 2> errors{-1, -1};
  if (pipe2(errors.data(), O_CLOEXEC) != 0) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("--hosts: cannot make a pipe: ") + std::strerror(errno));
  }
  LineReader reader(errors[0]);
  const pid_t child = fork();
  if (child == 0) become(command, errors[1]);
  close(errors[1]);
  if (child < 0) {
    return Status(StatusCode::kInternal,
                  std::string("--hosts: no process for mpirun: ") + std::strerror(errno));
  }
  MpirunNotices notices(mpirun.hosts);
  const int code = wait_for(child, reader, notices);
  if (InterruptGuard::interrupted()) return Status(StatusCode::kCancelled, "interrupted");
  if (code == 0) return {};
  if (code == kNotFound) {
    return Status(StatusCode::kNotFound,
                  "--hosts: cannot run '" + mpirun.mpirun + "'; Debian has it in openmpi-bin");
  }
  return Status(StatusCode::kInternal, "the launch over the hosts of '" + start.file +
                                           "' has ended with exit code " + std::to_string(code) +
                                           "; its messages above say why");
}

}  // namespace forerun::app
