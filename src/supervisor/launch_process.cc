#include "supervisor/launch_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr int kNotFound = 127;
constexpr milliseconds kLaunchGrace{2000};
constexpr milliseconds kExitPoll{5};

// Both ends of a pipe; the destructor closes those that have not been taken.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  bool open() { return pipe2(ends.data(), O_CLOEXEC) == 0; }
  int take(size_t end) { return std::exchange(ends[end], -1); }
};

// Runs between fork and exec, so it makes only system calls.
[[noreturn]] void become(char* const* arguments, pid_t parent, int input, int output, int errors) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotFound);  // the parent has died meanwhile
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments);
  _exit(kNotFound);
}

}  // namespace

LaunchProcess::LaunchProcess(pid_t process, int input, int output, int errors)
    : process_(process), input_(input), output_(output), errors_(errors) {}

Result<std::unique_ptr<LaunchProcess>> LaunchProcess::start(
    const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const auto failed = [](const char* what) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("launch: no ") + what + ": " + std::strerror(errno));
  };
  Pipe input, output, errors;
  if (!input.open() || !output.open() || !errors.open()) return failed("pipe");
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return failed("process");
  if (process == 0) {
    become(arguments.data(), parent, input.ends[0], output.ends[1], errors.ends[1]);
  }
  return std::unique_ptr<LaunchProcess>(
      new LaunchProcess(process, input.take(1), output.take(0), errors.take(0)));
}

LaunchProcess::~LaunchProcess() { end(milliseconds(0), kLaunchGrace); }

std::optional<int> LaunchProcess::exit_code() {
  siginfo_t info{};
  // The process stays a zombie until end(), so that its session number is not used again.
  constexpr int kOptions = WEXITED | WNOHANG | WNOWAIT;
  if (!exit_code_ && waitid(P_PID, static_cast<id_t>(process_), &info, kOptions) == 0 &&
      info.si_pid == process_) {
    exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  }
  return exit_code_;
}

bool LaunchProcess::wait(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!exit_code() && std::chrono::steady_clock::now() < deadline) {
    // The output must be read, or the process might block on a full pipe and not end.
    std::vector<Bytes> frames;
    std::vector<std::string> lines;
    (void)output_.read(frames, lines);
    (void)errors_.read(lines);
    std::this_thread::sleep_for(kExitPoll);
  }
  return exit_code_.has_value();
}

int LaunchProcess::end(milliseconds timeout, milliseconds grace) {
  if (has_ended_) return *exit_code_;
  if (!wait(timeout)) {
    kill(process_, SIGCONT);
    kill(process_, SIGTERM);
    wait(grace);
  }
  // Done twice, since a process may have started another one meanwhile.
  for (int round = 0; round < 2; ++round) {
    for (const pid_t left : processes_of_session(process_)) kill(left, SIGKILL);
  }
  wait(kLaunchGrace);
  waitpid(process_, nullptr, WNOHANG);
  has_ended_ = true;
  if (!exit_code_) exit_code_ = 128 + SIGKILL;
  return *exit_code_;
}

std::vector<pid_t> processes_of_session(pid_t session) {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec != std::errc()) {
      continue;
    }
    std::ifstream file(it->path() / "stat");
    std::string text;
    std::getline(file, text);
    // The process's name, in parentheses, may contain any character.
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 0;
    pid_t parent = 0, group = 0, its_session = 0;
    if (!(fields >> state >> parent >> group >> its_session)) continue;
    if (its_session == session && state != 'Z' && state != 'X') found.push_back(process);
  }
  return found;
}

}  // namespace forerun
