// The process that starts a launch (mpirun), and with it all of the launch that runs on this
// machine. It is spoken with in lines and ends with this object, whatever state it is in.
//
// It has a session of its own: a signal of the terminal does not reach it, and whatever it has
// started here is found by the session, also where it has died and left processes behind, stopped
// ones too. Where this process dies, it gets SIGTERM from the system.
//
// Threads: one at a time, and that which started it lives at least as long.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "supervisor/lines.h"

namespace forerun {

class LaunchProcess {
 public:
  // The program is looked for in PATH; no shell is run. kNotFound where there is none.
  static Result<std::unique_ptr<LaunchProcess>> start(const std::vector<std::string>& command);
  // end() with a short timeout.
  ~LaunchProcess();

  LineWriter& input() { return input_; }    // its standard input
  LineReader& output() { return output_; }  // its standard output
  LineReader& errors() { return errors_; }  // its standard error

  // Its exit code, or 128 and the signal that ended it; nothing while it runs. Does not wait.
  std::optional<int> exit_code();
  // Waits for its end up to `timeout`, then asks by SIGTERM, which mpirun passes on to all hosts,
  // and waits up to `grace` again. Nothing of it is left on this machine then.
  int end(std::chrono::milliseconds timeout, std::chrono::milliseconds grace);

 private:
  LaunchProcess(pid_t process, int input, int output, int errors);
  bool wait(std::chrono::milliseconds timeout);

  const pid_t process_;  // and its session
  LineWriter input_;
  LineReader output_;
  LineReader errors_;
  std::optional<int> exit_code_;
  bool has_ended_ = false;
};

// The processes of a session, all threads' leaders, those aside that have ended.
std::vector<pid_t> processes_of_session(pid_t session);

}  // namespace forerun
