// Ctrl-C and SIGTERM: the first one asks the running request to stop, so that statistics still
// come; the second one ends the process.
#pragma once

#include "forerun/status.h"

namespace forerun::app {

// Handles SIGINT and SIGTERM during its lifetime, then restores the earlier handlers. Only one may
// exist at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Whether a signal has come since the last construction.
  static bool interrupted();
  // kCancelled if a signal has come, else ok. A command that was interrupted returns it.
  static Status status();
  // The process's exit code after kCancelled: 128 plus the signal's number, as in a shell.
  static int exit_code();
};

}  // namespace forerun::app
