// Ctrl-C: the first one asks the running request to stop, so that statistics still come; the second
// one ends the process.
#pragma once

namespace forerun::app {

// Handles SIGINT and SIGTERM while it lives.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Whether a signal has come since construction or the last reset().
  static bool interrupted();
  static void reset();
};

}  // namespace forerun::app
