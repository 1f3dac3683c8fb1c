// Ctrl-C and SIGTERM: the first one asks the running request to stop, so that statistics still
// come; the second one ends the process.
#pragma once

#include "forerun/status.h"

namespace forerun::app {

// Handles SIGINT and SIGTERM while it lives, one at a time; what handled them before does again
// afterwards.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Whether a signal has come since the last construction.
  static bool interrupted();
  // kCancelled where a signal has come: what a command returns that did not run to its end.
  static Status status();
  // What the process ends with after kCancelled: 128 and the signal's number, as a shell has it.
  static int exit_code();
};

}  // namespace forerun::app
