// Ctrl-C and SIGTERM: the first signal asks the running request to stop, so that statistics are
// still printed; the second one ends the process.
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
  // Returns whether a signal has arrived since the last construction.
  static bool interrupted();
  // Returns kCancelled if a signal has arrived, else ok. An interrupted command returns it.
  static Status status();
  // Returns the process's exit code after kCancelled: 128 plus the signal's number, as in a shell.
  static int exit_code();
};

}  // namespace forerun::app
