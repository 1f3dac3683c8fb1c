// The server's event loop. One thread waits for sockets, the engine's completions, timers, signals
// and tasks of other threads.
//
// Threads: run() is called by one thread, the loop's; post() and stop() from any; everything else
// from the loop's thread or before run().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "forerun/status.h"

namespace forerun::server {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Returns after stop().
  void run();
  void stop();
  // Runs `task` on the loop's thread, soon, in the order of the calls.
  void post(std::function<void()> task);
  // Runs `task` once, unless the loop stops before.
  void after(std::chrono::milliseconds delay, std::function<void()> task);
  // Calls `on_readable` whenever `descriptor` has something to read. The caller keeps it, open for
  // as long as the loop lives.
  Status watch(int descriptor, std::function<void()> on_readable);
  // Calls `on_signal` for each of these signals that comes; replaces their earlier handlers.
  Status on_signals(const std::vector<int>& signals, std::function<void(int)> on_signal);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::server
