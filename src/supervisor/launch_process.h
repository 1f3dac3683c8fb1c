// The process that starts a launch (mpirun), together with all processes of the launch on this
// machine. The object exchanges messages with it, and its destructor ends all these processes,
// whatever their state.
//
// It has a session of its own, so signals of the terminal do not reach it, and all processes that
// it has started here can be found by the session, even if it has died or they are stopped. If this
// process dies, the system sends it SIGTERM.
//
// Thread rules: one thread at a time; the thread that started it must live at least as long.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "supervisor/lines.h"
#include "supervisor/message_pipes.h"

namespace forerun {

class LaunchProcess {
 public:
  // Starts a program, which is searched in PATH, without a shell. Fails with kNotFound if there is
  // no such program.
  static Result<std::unique_ptr<LaunchProcess>> start(const std::vector<std::string>& command);
  // Calls end() with a short timeout.
  ~LaunchProcess();

  MessageWriter& input() { return input_; }    // its standard input
  MessageReader& output() { return output_; }  // its standard output
  LineReader& errors() { return errors_; }     // its standard error

  // Returns the process's exit code, or 128 plus the signal that ended it; nothing while it runs.
  // Does not wait.
  std::optional<int> exit_code();
  // Waits up to `timeout` for the process to end, then sends SIGTERM, which mpirun passes on to all
  // hosts, and waits up to `grace` again. Afterwards no process of its session is left on this
  // machine.
  int end(std::chrono::milliseconds timeout, std::chrono::milliseconds grace);

 private:
  LaunchProcess(pid_t process, int input, int output, int errors);
  bool wait(std::chrono::milliseconds timeout);

  const pid_t process_;  // number of the process and of its session
  MessageWriter input_;
  MessageReader output_;
  LineReader errors_;
  std::optional<int> exit_code_;
  bool has_ended_ = false;
};

// Returns the processes of a session that have not ended.
std::vector<pid_t> processes_of_session(pid_t session);

}  // namespace forerun
