// The server's event loop. One thread waits for sockets, the engine's completions, timers, signals
// and tasks of other threads.
//
// Thread rules: one thread, the loop's, calls run(); post() and stop() may be called from any
// thread; all other functions from the loop's thread or before run().
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
  // Runs `task` soon on the loop's thread, in the order of the calls.
  void post(std::function<void()> task);
  // Runs `task` once, unless the loop stops before.
  void after(std::chrono::milliseconds delay, std::function<void()> task);
  // Calls `on_readable` whenever `descriptor` is readable. The caller owns the descriptor and keeps
  // it open for as long as the loop lives.
  Status watch(int descriptor, std::function<void()> on_readable);
  // Calls `on_signal` for each of these signals; replaces their earlier handlers.
  Status on_signals(const std::vector<int>& signals, std::function<void(int)> on_signal);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun::server
